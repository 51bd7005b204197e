#include "model/owned_matrix.h"

#include <algorithm>
#include <vector>

#include "core/bf16.h"
#include "core/parallel.h"
#include "model/weight_slots.h"

namespace dml {
namespace {

constexpr std::int64_t kRows = 64;  // converted to float32 at a time by each thread

void store(const float* values, std::int64_t first_row, std::int64_t rows, const OwnedMatrix& to) {
  const std::int64_t begin = first_row * to.own.cols, count = rows * to.own.cols;
  if (to.own.dtype == DType::f32) {
    std::copy_n(values, count, static_cast<float*>(to.data()) + begin);
  } else {
    auto* out = static_cast<bf16*>(to.data()) + begin;
    for (std::int64_t i = 0; i < count; ++i) out[i] = to_bf16(values[i]);
  }
}

}  // namespace

std::size_t OwnedMatrix::bytes() const { return static_cast<std::size_t>(dtype_bytes(own.dtype, own.rows * own.cols)); }

OwnedMatrix copy_to_owned(CausalLm& model, const WeightName& place, bool in_float32) {
  kernels::Weight& slot = *frozen_at(model, place);
  OwnedMatrix m{place, slot, {.rows = slot.rows, .cols = slot.cols}};
  const bool wide = in_float32 || slot.dtype == DType::f32 || slot.dtype == DType::f16;
  m.own.dtype = wide ? DType::f32 : DType::bf16;
  model.owned.emplace_back((m.bytes() + sizeof(float) - 1) / sizeof(float));
  m.own.data = model.owned.back().data();
  restore(m);
  slot = m.own;
  return m;
}

void set_rows(const OwnedMatrix& m, const std::function<void(std::int64_t, std::int64_t, float*)>& read) {
  parallel_ranges(m.own.rows, kRows, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> rows(static_cast<std::size_t>((last - first) * m.own.cols));
    read(first, last - first, rows.data());
    store(rows.data(), first, last - first, m);
  });
}

void restore(const OwnedMatrix& m) {
  set_rows(m, [&](std::int64_t first, std::int64_t count, float* out) {
    kernels::unpack(m.original, first, count, 0, m.original.cols, out);
  });
}

}  // namespace dml
