#include "kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "kernels/element_tasks.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kMaxPartials = 1024;  // of a reduction, whose partial results are on the stack

std::size_t bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

std::int64_t reduction_grain(std::int64_t n) {
  std::int64_t even = ceil_div(n, kMaxPartials);
  return std::max(kTaskElements, round_up(even, 16));
}

}  // namespace

void fill(std::span<float> x, float value) {
  ProfileScope profiled("fill");
  parallel_ranges(static_cast<std::int64_t>(x.size()), kTaskElements,
                  [&](std::int64_t first, std::int64_t last) { std::fill(x.data() + first, x.data() + last, value); });
}

void copy(ConstMat from, Mat to) {
  ProfileScope profiled("copy");
  DML_CHECK(from.size() == to.size());
  parallel_ranges(from.size(), kTaskElements, [&](std::int64_t first, std::int64_t last) {
    std::memcpy(to.data + first, from.data + first, bytes(last - first));
  });
}

void add_scaled(ConstMat x, float a, Mat y) {
  ProfileScope profiled("add_scaled");
  DML_CHECK(x.size() == y.size());
  parallel_ranges(x.size(), kTaskElements, [&](std::int64_t first, std::int64_t last) {
    loops().add_scaled(x.data + first, a, y.data + first, last - first);
  });
}

void scale(Mat x, float a) {
  ProfileScope profiled("scale");
  parallel_ranges(x.size(), kTaskElements, [&](std::int64_t first, std::int64_t last) {
    loops().set_scaled(x.data + first, a, x.data + first, last - first);
  });
}

void soft_cap(float cap, Mat x) {
  ProfileScope profiled("soft_cap");
  parallel_ranges(x.size(), kTaskElements,
                  [&](std::int64_t first, std::int64_t last) { loops().softcap(x.data + first, last - first, cap); });
}

void clip(ConstMat from, float limit, Mat to) {
  ProfileScope profiled("clip");
  DML_CHECK(from.size() == to.size());
  parallel_ranges(to.size(), kTaskElements, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) to.data[i] = std::clamp(from.data[i], -limit, limit);
  });
}

void clip_backward(ConstMat from, float limit, Mat d) {
  ProfileScope profiled("clip_backward");
  DML_CHECK(from.size() == d.size());
  parallel_ranges(d.size(), kTaskElements, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      if (std::abs(from.data[i]) > limit) d.data[i] = 0;
  });
}

void add_bias(const float* bias, Mat y) {
  ProfileScope profiled("add_bias");
  parallel_ranges(y.rows, rows_per_task(y.cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) loops().add_scaled(bias, 1, y.row(t), y.cols);
  });
}

void bias_backward(ConstMat dy, float* dbias) {
  ProfileScope profiled("bias_backward");
  parallel_ranges(dy.cols, 128, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = 0; t < dy.rows; ++t) loops().add_scaled(dy.row(t) + first, 1, dbias + first, last - first);
  });
}

void gather_rows(ConstMat from, std::span<const std::int32_t> rows, Mat to) {
  ProfileScope profiled("gather_rows");
  DML_CHECK(static_cast<std::int64_t>(rows.size()) == to.rows && from.cols == to.cols);
  parallel_ranges(to.rows, rows_per_task(to.cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      std::memcpy(to.row(i), from.row(rows[static_cast<std::size_t>(i)]), bytes(to.cols));
  });
}

void scale_rows(Mat x, std::span<const float> factors) {
  ProfileScope profiled("scale_rows");
  DML_CHECK(std::ssize(factors) == x.rows);
  parallel_ranges(x.rows, rows_per_task(x.cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      loops().set_scaled(x.row(i), factors[static_cast<std::size_t>(i)], x.row(i), x.cols);
  });
}

void scatter_rows(ConstMat from, std::span<const std::int32_t> rows, Mat to, Write mode) {
  ProfileScope profiled("scatter_rows");
  DML_CHECK(static_cast<std::int64_t>(rows.size()) == from.rows && from.cols == to.cols);
  if (mode == Write::set) fill(to.flat(), 0);
  parallel_ranges(from.rows, rows_per_task(from.cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      loops().add_scaled(from.row(i), 1, to.row(rows[static_cast<std::size_t>(i)]), from.cols);
  });
}

// Parallel over columns, so that rows with the same destination are added by one thread, in order.
void sum_rows(ConstMat from, std::span<const std::int32_t> rows, Mat to) {
  ProfileScope profiled("sum_rows");
  DML_CHECK(static_cast<std::int64_t>(rows.size()) == from.rows && from.cols == to.cols);
  constexpr std::int64_t kColumns = 64;
  parallel_ranges(to.cols, kColumns, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = 0; i < to.rows; ++i) std::fill(to.row(i) + first, to.row(i) + last, 0.f);
    for (std::int64_t i = 0; i < from.rows; ++i)
      loops().add_scaled(from.row(i) + first, 1, to.row(rows[static_cast<std::size_t>(i)]) + first, last - first);
  });
}

void round_to_bf16(ConstMat from, MatrixView<bf16> to) {
  ProfileScope profiled("round_to_bf16");
  DML_CHECK(from.size() == to.size());
  parallel_ranges(from.size(), kTaskElements, [&](std::int64_t first, std::int64_t last) {
    loops().to_bf16(from.data + first, last - first, to.data + first);
  });
}

void widen_bf16(MatrixView<bf16> from, Mat to) {
  ProfileScope profiled("widen_bf16");
  DML_CHECK(from.size() == to.size());
  parallel_ranges(from.size(), kTaskElements, [&](std::int64_t first, std::int64_t last) {
    loops().from_bf16(from.data + first, last - first, to.data + first);
  });
}

void dropout(ConstMat x, float p, const Random& random, Mat y, std::int64_t offset) {
  ProfileScope profiled("dropout");
  DML_CHECK(x.size() == y.size() && p >= 0 && p < 1 && offset % 4 == 0);
  if (p == 0) {
    if (x.data != y.data) copy(x, y);
    return;
  }
  // An element is kept if uniform(i) = (word >> 8) · 2⁻²⁴ ≥ p.
  auto threshold = static_cast<std::uint32_t>(std::ceil(static_cast<double>(p) * 0x1p24));
  parallel_ranges(x.size(), kTaskElements, [&](std::int64_t first, std::int64_t last) {
    loops().dropout(x.data + first, last - first, threshold, 1 / (1 - p),
                    static_cast<std::uint64_t>((offset + first) / 4), random.key().data(), random.high().data(),
                    y.data + first);
  });
}

namespace {

// `finite(first, count)`: whether the values [first, first + count) are finite.
template <class Finite>
std::int64_t first_bad(std::int64_t n, Finite finite) {
  ProfileScope profiled("first_not_finite");
  const std::int64_t grain = reduction_grain(n);
  std::array<bool, kMaxPartials> bad{};
  parallel_ranges(n, grain, [&](std::int64_t first, std::int64_t last) {
    bad[static_cast<std::size_t>(first / grain)] = !finite(first, last - first);
  });
  auto block = std::find(bad.begin(), bad.end(), true) - bad.begin();
  for (std::int64_t i = block * grain; i < n; ++i)
    if (!finite(i, 1)) return i;
  return -1;
}

}  // namespace

std::int64_t first_not_finite(std::span<const float> x) {
  return first_bad(std::ssize(x),
                   [&](std::int64_t first, std::int64_t n) { return loops().all_finite(x.data() + first, n); });
}

std::int64_t first_not_finite(std::span<const bf16> x) {
  return first_bad(std::ssize(x), [&](std::int64_t first, std::int64_t n) {
    std::uint32_t bad = 0;  // all exponent bits set: infinite or NaN
    for (std::int64_t i = first; i < first + n; ++i)
      bad |= static_cast<std::uint32_t>((x[static_cast<std::size_t>(i)].bits & 0x7f80u) == 0x7f80u);
    return bad == 0;
  });
}

}  // namespace dml::kernels
