#include "kernels/gemm.h"

#include <cblas.h>
#include <strings.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
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

// Weight rows of one task where rows of x are few: as many tasks for every thread, but x is packed for each.
std::int64_t rows_of_task(std::int64_t rows) {
  constexpr std::int64_t kTasks = 4, kUnit = 16, kFewest = 32, kMost = 1024;
  const std::int64_t tasks = kTasks * threads(), part = (rows + tasks - 1) / tasks;
  return std::clamp((part + kUnit - 1) / kUnit * kUnit, kFewest, kMost);
}

// OpenBLAS takes a processor younger than itself for an old one and falls back to SSE3 kernels, five times slower. So
// it is asked again with the family's name, unless the user named one. Before main: nothing else runs yet.
bool ready_blas() {
  openblas_set_num_threads(1);
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || std::getenv("OPENBLAS_CORETYPE"))
    return true;
  if (!gotoblas_dynamic_init || !gotoblas_dynamic_quit) return true;  // a build for one processor
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

// Element (row, col) of a float32 copy of a block of the weight, and its row length.
struct Panel {
  const float* data;
  std::int64_t ld;
};
Panel panel(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols) {
  if (w.storage == Storage::f32) return {static_cast<const float*>(w.data) + row * w.cols + col, w.cols};
  auto scratch = thread_scratch(nrows * ncols);
  unpack(w, row, nrows, col, ncols, scratch.data());
  return {scratch.data(), ncols};
}

// Blocks of ggml, some rows at a time as float32.
void few_rows_of_blocks(ConstMat x, const Weight& w, float* to, std::int64_t ld, bool add, std::int64_t first,
                        std::int64_t last) {
  constexpr std::int64_t kRows = 16;
  const std::int64_t packed = loops().room * ((w.cols + 127) / 128 * 128);
  float* room = thread_scratch(packed + kRows * w.cols).data();
  float* values = room + packed;
  for (; first < last; first += kRows, to += kRows) {
    const std::int64_t some = std::min(kRows, last - first);
    unpack(w, first, some, 0, w.cols, values);
    loops().few_rows({Storage::f32, some, w.cols, values}, 0, some, x.rows, x.data, x.cols, to, ld, add, room);
  }
}

void few_rows_nt(ConstMat x, const Weight& w, float* to, std::int64_t ld, bool add, std::int64_t first,
                 std::int64_t last) {
  if (block_format(w.storage) || w.storage == Storage::mxfp4) return few_rows_of_blocks(x, w, to, ld, add, first, last);
  if (w.storage != Storage::nf4 || w.cols % kNf4Block == 0) {
    Weight rows = w.slice(first, last - first);
    const std::int64_t packed = loops().room * ((w.cols + 127) / 128 * 128);
    const std::int64_t scales = w.scale_codes ? rows.rows * rows.cols / kNf4Block : 0;
    float* room = thread_scratch(packed + scales).data();
    if (w.scale_codes) {
      kernels::expand_scales(rows, 0, scales, room + packed);
      rows.scales = room + packed;
    }
    return loops().few_rows(rows, 0, rows.rows, x.rows, x.data, x.cols, to, ld, add, room);
  }
  for (std::int64_t n = first; n < last; ++n, ++to) {  // rows that begin inside a block
    Panel b = panel(w, n, 1, 0, w.cols);
    loops().dot_block(x.rows, 1, w.cols, x.data, x.cols, b.data, b.ld, to, ld, add);
  }
}

// The same for any number of rows and in any company: eight at a time, over weights that stay in a core's cache meanwhile.
// Fewer than the instruction set's own way takes (Loops::fewest_rows) are filled up with zeros.
void dots_nt(ConstMat x, const Weight& w, Mat y, bool add, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kCachedBytes = 256 << 10, kUnit = 16;
  std::int64_t part = last - first;
  if (x.rows > kDotRows)
    part = std::clamp(kCachedBytes / std::max<std::int64_t>(1, storage_bytes(w.storage, w.cols)) / kUnit * kUnit, kUnit,
                      std::max(kUnit, part));
  for (std::int64_t n = first; n < last; n += part) {
    const std::int64_t end = std::min(n + part, last);
    for (std::int64_t r = 0; r < x.rows; r += kDotRows) {
      const std::int64_t rows = std::min(kDotRows, x.rows - r), fewest = loops().fewest_rows(w);
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

}  // namespace

void gemm_nt(ConstMat x, const Weight& w, Mat y, Write mode, Rows rows) {
  ProfileScope profiled("gemm_nt", 2.0 * static_cast<double>(x.size()) * static_cast<double>(w.rows));
  DML_CHECK(x.cols == w.cols && y.rows == x.rows && y.cols == w.rows);
  bool add = mode == Write::add;
  if (rows == Rows::dots)
    return parallel_ranges(w.rows, rows_of_task(w.rows), [&](std::int64_t first, std::int64_t last) {
      dots_nt(x, w, y, add, first, last);
    });
  if (rows == Rows::by_count && x.rows <= kDotRows)
    return parallel_ranges(w.rows, rows_of_task(w.rows), [&](std::int64_t first, std::int64_t last) {
      few_rows_nt(x, w, y.data + first, y.cols, add, first, last);
    });
  packed_product({weight_of(x)}, {w}, y, mode);
}

void gemm_nt_with(ConstMat x, const Weight& w, ConstMat down, ConstMat b, Mat y, Write mode, Rows rows) {
  if (rows == Rows::dots || (rows == Rows::by_count && x.rows <= kDotRows)) {
    gemm_nt(x, w, y, mode, rows);
    return lora_up(down, b, 1, y);
  }
  ProfileScope profiled("gemm_nt",
                        2.0 * static_cast<double>(x.rows * w.rows) * static_cast<double>(x.cols + down.cols));
  DML_CHECK(x.cols == w.cols && y.rows == x.rows && y.cols == w.rows);
  DML_CHECK(down.rows == x.rows && down.cols == b.cols && b.rows == w.rows);
  Tail tail{{weight_of(down)}, {weight_of(b)}};
  packed_product({weight_of(x)}, {w}, y, mode, &tail);
}

void gemm_nt_panel(const Factor& x, const Weight& w, std::int64_t first, std::int64_t count, Mat y) {
  if (x.count() > kDotRows) return packed_tile(x, 0, x.count(), {w}, first, count, y.data, y.cols, Write::set);
  ConstMat rows{static_cast<const float*>(x.values.data), x.count(), x.depth()};
  few_rows_nt(rows, w, y.data, y.cols, false, first, first + count);
}

void gemm_nn(ConstMat dy, const Weight& w, Mat dx, Write mode) {
  ProfileScope profiled("gemm_nn", 2.0 * static_cast<double>(dy.size()) * static_cast<double>(w.cols));
  DML_CHECK(dy.cols == w.rows && dx.rows == dy.rows && dx.cols == w.cols);
  packed_product({weight_of(dy)}, {w, true}, dx, mode);
}

void gemm_nn_with(ConstMat dy, const Weight& w, ConstMat ddown, ConstMat a, Mat dx, Write mode) {
  ProfileScope profiled("gemm_nn",
                        2.0 * static_cast<double>(dy.rows * w.cols) * static_cast<double>(dy.cols + ddown.cols));
  DML_CHECK(dy.cols == w.rows && dx.rows == dy.rows && dx.cols == w.cols);
  DML_CHECK(ddown.rows == dy.rows && ddown.cols == a.rows && a.cols == w.cols);
  Tail tail{{weight_of(ddown)}, {weight_of(a), true}};
  packed_product({weight_of(dy)}, {w, true}, dx, mode, &tail);
}

void gemm_nn_panels(const float* dy, std::int64_t all_rows, std::int64_t width, const Weight& w, Mat dx, Write mode) {
  ProfileScope profiled("gemm_nn_panels", 2.0 * static_cast<double>(dx.size()) * static_cast<double>(w.rows));
  DML_CHECK(dx.rows == all_rows && dx.cols == w.cols);
  packed_product({weight_of({dy, all_rows, w.rows}), false, width}, {w, true}, dx, mode);
}

void gemm_tn(ConstMat dy, ConstMat x, Mat dw, Write mode) {
  ProfileScope profiled("gemm_tn", 2.0 * static_cast<double>(dy.size()) * static_cast<double>(x.cols));
  DML_CHECK(dy.rows == x.rows && dw.rows == dy.cols && dw.cols == x.cols);
  packed_product({weight_of(dy), true}, {weight_of(x), true}, dw, mode);
}

void sgemm_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a, static_cast<int>(lda), b,
              static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

void take_blas_memory() {
  constexpr std::size_t kBuffer = std::size_t{160} << 20;  // more than OpenBLAS asks for on processors of today
  if (void* room = std::malloc(kBuffer)) std::free(room);
  else throw Error(ExitCode::memory, "no memory for the matrix library: it needs 160 MB of addresses for each thread");
  constexpr std::int64_t n = 256;
  std::vector<float> a(n * n, 0.5f), c(n * n);
  sgemm_tile(false, false, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n);
}

double measured_sgemm_rate() {
  constexpr std::int64_t n = 2048;
  std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f), c(n * n);
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    auto start = std::chrono::steady_clock::now();
    sgemm_tile(false, false, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * n * n * n / seconds.count());
  }
  return best;
}

const char* blas_description() {
  static const std::string text = std::string(openblas_get_config()) + " " + openblas_get_corename();
  return text.c_str();
}

}  // namespace dml::kernels
