#include "kernels/gemm.h"

#include <cblas.h>
#include <strings.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "kernels/lora.h"
#include "kernels/packed.h"
#include "kernels/quant_ggml.h"
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

// Exported by OpenBLAS builds that choose their kernels at run time.
extern "C" {
[[gnu::weak]] void gotoblas_dynamic_init();
[[gnu::weak]] void gotoblas_dynamic_quit();
}

namespace dml::kernels {
namespace {

// Weight rows of a task if x has few rows: few enough for several tasks per thread, many enough to amortise packing x
// for each.
std::int64_t rows_of_task(std::int64_t rows) {
  constexpr std::int64_t kTasks = 4, kUnit = 16, kMin = 32, kMax = 1024;
  const std::int64_t tasks = kTasks * threads(), part = ceil_div(rows, tasks);
  return std::clamp(round_up(part, kUnit), kMin, kMax);
}

// For processors newer than itself, OpenBLAS falls back to SSE3 kernels, which are five times slower. So it is
// initialized again with the name of a supported core, unless the user has set one. Runs before main, when no other
// thread is active.
bool ready_blas() {
  openblas_set_num_threads(1);
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || std::getenv("OPENBLAS_CORETYPE"))
    return true;
  if (!gotoblas_dynamic_init || !gotoblas_dynamic_quit) return true;  // a build for a single core type
  for (const char* modern : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"})
    if (strcasecmp(openblas_get_corename(), modern) == 0) return true;
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  setenv("OPENBLAS_CORETYPE", wide ? "SkylakeX" : "Haswell", 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv("OPENBLAS_CORETYPE");
#endif
  return true;
}
[[maybe_unused]] const bool blas_is_ready = ready_blas();

// OpenBLAS keeps a buffer for each call that ran at the same time as others; when memory runs out, it tries forever to
// allocate one. So a call that may need another buffer first looks for room, and no other call starts until it ends.
class BlasBuffer {
 public:
  BlasBuffer() : starts_(mutex_) {
    if (running_ < buffers_) {
      ++running_;
      starts_.unlock();
      return;
    }
    constexpr std::size_t kBuffer = std::size_t{160} << 20;  // more than OpenBLAS requests on current processors
    if (void* room = std::malloc(kBuffer)) std::free(room);
    else
      throw Error(ExitCode::memory, "no memory for the matrix library: it needs 160 MB of addresses for each thread");
    ++running_, ++buffers_;
  }
  ~BlasBuffer() { --running_; }
  BlasBuffer(const BlasBuffer&) = delete;
  BlasBuffer& operator=(const BlasBuffer&) = delete;

 private:
  static inline std::mutex mutex_;
  static inline std::atomic<int> running_ = 0, buffers_ = 0;
  std::unique_lock<std::mutex> starts_;
};

// FLOP/s of the fastest of a few calls of product(x, w, y) with square matrices of 2048 rows. They are mapped, so that
// none of their memory remains with the process.
template <class F>
double best_rate(F product) {
  constexpr std::int64_t n = 2048;
  Arena room(3 * n * n * sizeof(float));
  const Mat x = room.matrix(n, n), w = room.matrix(n, n), y = room.matrix(n, n);
  std::ranges::fill(x.flat(), 0.5f);
  std::ranges::fill(w.flat(), 0.25f);
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    const Clock::time_point start = Clock::now();
    product(x, w, y);
    best = std::max(best, 2.0 * n * n * n / seconds_since(start));
  }
  return best;
}

// A block of the weight in float32 (a copy, unless it is stored so) and its leading dimension.
struct Panel {
  const float* data;
  std::int64_t ld;
};
Panel panel(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols) {
  if (w.dtype == DType::f32) return {static_cast<const float*>(w.data) + row * w.cols + col, w.cols};
  auto scratch = thread_scratch(nrows * ncols);
  unpack(w, row, nrows, col, ncols, scratch.data());
  return {scratch.data(), ncols};
}

// Products with formats that few_rows does not read, unpacked to float32 a few rows at a time.
void few_rows_unpacked(ConstMat x, const Weight& w, float* to, std::int64_t ld, bool add, std::int64_t first,
                       std::int64_t last) {
  constexpr std::int64_t kRows = 16;
  const std::int64_t packed = loops().room * ((w.cols + 127) / 128 * 128);
  float* room = thread_scratch(packed + kRows * w.cols).data();
  float* values = room + packed;
  for (; first < last; first += kRows, to += kRows) {
    const std::int64_t some = std::min(kRows, last - first);
    unpack(w, first, some, 0, w.cols, values);
    loops().few_rows({DType::f32, some, w.cols, values}, 0, some, x.rows, x.data, x.cols, to, ld, add, room);
  }
}

void few_rows_nt(ConstMat x, const Weight& w, float* to, std::int64_t ld, bool add, std::int64_t first,
                 std::int64_t last) {
  if (w.dtype != DType::nf4 && !loops().reads_as_stored(w)) return few_rows_unpacked(x, w, to, ld, add, first, last);
  if (loops().reads_as_stored(w)) {
    Weight rows = w.slice(first, last - first);
    const std::int64_t packed = loops().room * ((w.cols + 127) / 128 * 128);
    const std::int64_t scales = w.scale_blocks ? rows.rows * rows.cols / kNf4Block : 0;
    float* room = thread_scratch(packed + scales).data();
    if (w.scale_blocks) {
      kernels::expand_scales(rows, 0, scales, room + packed);
      rows.scales = room + packed;
    }
    return loops().few_rows(rows, 0, rows.rows, x.rows, x.data, x.cols, to, ld, add, room);
  }
  for (std::int64_t n = first; n < last; ++n, ++to) {  // single rows, since rows begin inside a block
    Panel b = panel(w, n, 1, 0, w.cols);
    loops().dot_block(x.rows, 1, w.cols, x.data, x.cols, b.data, b.ld, to, ld, add);
  }
}

// Dot products with the same bits for any number of rows: eight rows at a time, over weights that stay in the core's
// cache. Fewer rows than Loops::min_batched_rows are padded with zeros.
void dots_nt(ConstMat x, const Weight& w, Mat y, bool add, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kCachedBytes = 256 << 10, kUnit = 16;
  std::int64_t part = last - first;
  if (x.rows > kDotRows)
    part = std::clamp(kCachedBytes / std::max<std::int64_t>(1, dtype_bytes(w.dtype, w.cols)) / kUnit * kUnit, kUnit,
                      std::max(kUnit, part));
  for (std::int64_t n = first; n < last; n += part) {
    const std::int64_t end = std::min(n + part, last);
    for (std::int64_t r = 0; r < x.rows; r += kDotRows) {
      const std::int64_t rows = std::min(kDotRows, x.rows - r), fewest = loops().min_batched_rows(w);
      if (rows >= fewest) {
        few_rows_nt(x.slice(r, rows), w, y.row(r) + n, y.cols, add, n, end);
        continue;
      }
      thread_local std::vector<float> filled, product;
      filled.assign(static_cast<std::size_t>(fewest * x.cols), 0);
      product.resize(static_cast<std::size_t>(fewest * (end - n)));
      std::copy_n(x.row(r), rows * x.cols, filled.data());
      few_rows_nt({filled.data(), fewest, x.cols}, w, product.data(), end - n, false, n, end);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t c = n; c < end; ++c) {
          const float value = product[static_cast<std::size_t>(i * (end - n) + c - n)];
          float& to = y.row(r + i)[c];
          to = add ? to + value : value;
        }
    }
  }
}

// The copy, if it was packed with a tail like that of the product.
PackedCopy copy_for(const PackedCopy& copy, ConstMat tail) {
  return copy.tail == (tail.data ? tail.cols : 0) ? copy : PackedCopy{};
}

// A weight and an adapter behind it as second factors.
struct WithAdapter {
  Factor weight, adapter;

  WithAdapter(const Weight& w, ConstMat a, Direction direction)
      : weight{w, direction == Direction::backward}, adapter{weight_of(a), weight.transposed} {}
  const Factor* tail() const { return adapter.depth() > 0 ? &adapter : nullptr; }
};

}  // namespace

std::int64_t packed_size(const Weight& w, ConstMat adapter, Direction direction) {
  const WithAdapter f(w, adapter, direction);
  return packed_size(f.weight, Side::b, f.tail());
}

PackedCopy pack_weight(const Weight& w, ConstMat adapter, Direction direction, float* room) {
  const WithAdapter f(w, adapter, direction);
  return pack(f.weight, Side::b, room, f.tail()).packed;
}

void pack_adapter(const Weight& w, ConstMat adapter, Direction direction, float* packed) {
  const WithAdapter f(w, adapter, direction);
  if (f.tail()) pack_tail(f.weight, Side::b, packed, f.adapter);
}

void gemm_nt(const TaskList<ForwardProduct>& products, Write mode, RowMethod rows) {
  auto operations = [](const ForwardProduct& p) {
    return 2.0 * static_cast<double>(p.y.size()) * static_cast<double>(p.x.cols + p.down.cols);
  };
  auto width = [](const ForwardProduct& p) { return p.y.cols; };
  ProfileScope profiled("gemm_nt", profiling ? products.total(operations) : 0, profiling ? products.total(width) : 0);
  const bool add = mode == Write::add;
  auto as_dots = [&](const ForwardProduct& p) {
    return rows == RowMethod::dots || (rows == RowMethod::by_count && p.x.rows <= kDotRows);
  };
  std::int64_t dots = 0, dot_rows = 0;
  for (std::int64_t i = 0; i < products.size(); ++i) {
    const ForwardProduct p = products[i];
    DML_CHECK(p.x.cols == p.w.cols && p.y.rows == p.x.rows && p.y.cols == p.w.rows);
    DML_CHECK(!p.down.data || (p.down.rows == p.x.rows && p.down.cols == p.b.cols && p.b.rows == p.w.rows));
    if (as_dots(p)) ++dots, dot_rows += p.x.rows > 0 ? p.w.rows : 0;
  }
  if (dots > 0) {
    const std::int64_t part = rows_of_task(dot_rows);
    auto tiles = [&](const ForwardProduct& p) { return as_dots(p) && p.x.rows > 0 ? ceil_div(p.w.rows, part) : 0; };
    parallel_tiles(products, tiles, [&](const ForwardProduct& p, TileIndex tile) {
      const std::int64_t first = tile.i * part, last = std::min(first + part, p.w.rows);
      count_weight_bytes(bytes_of_rows(p.w, last - first));
      if (rows == RowMethod::dots) dots_nt(p.x, p.w, p.y, add, first, last);
      else few_rows_nt(p.x, p.w, p.y.data + first, p.y.cols, add, first, last);
    });
    auto up = [&](std::int64_t i) {
      const ForwardProduct p = products[i];
      return as_dots(p) && p.down.data ? AdapterUp{p.down, p.b, 1, p.y} : AdapterUp{};
    };
    if (products.total([](const ForwardProduct& p) { return p.down.rows; }) > 0) lora_up({products.size(), up});
  }
  auto packed = [&](std::int64_t i) {
    const ForwardProduct p = products[i];
    Product product{{weight_of(p.x)}, {p.w}, p.y, mode};
    if (p.down.data) product.tail = Tail{{weight_of(p.down)}, {weight_of(p.b)}};
    product.b.packed = copy_for(p.packed, p.down);
    return as_dots(p) ? Product{} : product;
  };
  if (dots < products.size()) packed_products({products.size(), packed});
}

void gemm_nn(const TaskList<InputGradient>& products, Write mode) {
  auto operations = [](const InputGradient& p) {
    return 2.0 * static_cast<double>(p.dx.size()) * static_cast<double>(p.dy.cols + p.ddown.cols);
  };
  auto width = [](const InputGradient& p) { return p.dx.cols; };
  ProfileScope profiled("gemm_nn", profiling ? products.total(operations) : 0, profiling ? products.total(width) : 0);
  auto packed = [&](std::int64_t i) {
    const InputGradient p = products[i];
    DML_CHECK(p.dy.cols == p.w.rows && p.dx.rows == p.dy.rows && p.dx.cols == p.w.cols);
    Product product{{weight_of(p.dy)}, {p.w, true}, p.dx, mode};
    if (p.ddown.data) {
      DML_CHECK(p.ddown.rows == p.dy.rows && p.ddown.cols == p.a.rows && p.a.cols == p.w.cols);
      product.tail = Tail{{weight_of(p.ddown)}, {weight_of(p.a), true}};
    }
    product.b.packed = copy_for(p.packed, p.ddown);
    return product;
  };
  packed_products({products.size(), packed});
}

void gemm_nn_panels(const float* dy, std::int64_t all_rows, std::int64_t width, const Weight& w, Mat dx, Write mode) {
  ProfileScope profiled("gemm_nn_panels", 2.0 * static_cast<double>(dx.size()) * static_cast<double>(w.rows));
  DML_CHECK(dx.rows == all_rows && dx.cols == w.cols);
  packed_products(Product{{weight_of({dy, all_rows, w.rows}), false, width}, {w, true}, dx, mode});
}

void gemm_tn(const TaskList<WeightGradient>& products) {
  auto operations = [](const WeightGradient& p) {
    return 2.0 * static_cast<double>(p.dy.size()) * static_cast<double>(p.x.cols);
  };
  auto width = [](const WeightGradient& p) { return p.dw.cols; };
  ProfileScope profiled("gemm_tn", profiling ? products.total(operations) : 0, profiling ? products.total(width) : 0);
  auto packed = [&](std::int64_t i) {
    const WeightGradient p = products[i];
    DML_CHECK(p.dy.rows == p.x.rows && p.dw.rows == p.dy.cols && p.dw.cols == p.x.cols);
    return Product{{weight_of(p.dy), true}, {weight_of(p.x), true}, p.dw, p.mode};
  };
  packed_products({products.size(), packed});
}

void sgemm_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                std::int64_t ldc) {
  const BlasBuffer buffer;
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a, static_cast<int>(lda), b,
              static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

void reserve_blas_memory() {
  constexpr std::int64_t n = 256;
  std::vector<float> a(n * n, 0.5f), c(n * n);
  sgemm_tile(false, false, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n);
}

double measured_sgemm_rate() {
  return best_rate([](ConstMat x, ConstMat w, Mat y) {
    sgemm_tile(false, false, x.rows, w.cols, x.cols, 1, x.data, x.cols, w.data, w.cols, 0, y.data, y.cols);
  });
}

double measured_product_rate() {
  return best_rate([](ConstMat x, ConstMat w, Mat y) { gemm_nt(x, weight_of(w), y, Write::set, RowMethod::packed); });
}

const char* blas_description() {
  static const std::string text = std::string(openblas_get_config()) + " " + openblas_get_corename();
  return text.c_str();
}

}  // namespace dml::kernels
