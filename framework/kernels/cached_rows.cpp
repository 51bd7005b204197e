#include "kernels/cached_rows.h"

#include <algorithm>

#include "core/bf16.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/quant_int8.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kRowsPerTask = 64;

}  // namespace

void store_rows(ConstMat x, const CachedRows& to, std::int64_t at) {
  DML_CHECK(x.cols == to.width() && at >= 0 && at + x.rows <= to.rows);
  parallel_ranges(x.rows, kRowsPerTask, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const float* from = x.row(r);
      const std::int64_t row = to.place(at + r), place = row * to.width();
      switch (to.dtype) {
        case DType::f32:
          std::copy_n(from, x.cols, reinterpret_cast<float*>(to.data) + place);
          break;
        case DType::bf16:
          for (std::int64_t i = 0; i < x.cols; ++i) reinterpret_cast<bf16*>(to.data)[place + i] = dml::to_bf16(from[i]);
          break;
        case DType::int8:
          for (std::int64_t h = 0; h < to.heads; ++h)
            quantize_row_int8(from + h * to.head_dim, to.head_dim,
                              reinterpret_cast<std::int8_t*>(to.data) + place + h * to.head_dim,
                              to.scales + row * to.heads + h);
          break;
        default:
          DML_CHECK(false, "a cache of a type that is none of its own");
      }
    }
  });
}

void load_head(const CachedRows& from, std::int64_t head, std::int64_t first, std::int64_t count, float* out) {
  const Loops& loop = loops();
  for (std::int64_t r = first; r < first + count; ++r, out += from.head_dim) {
    const std::int64_t row = from.place(r);
    const std::byte* at = from.data + dtype_bytes(from.dtype, row * from.width() + head * from.head_dim);
    switch (from.dtype) {
      case DType::bf16:
        loop.from_bf16(at, from.head_dim, out);
        break;
      case DType::int8:
        loop.from_int8(at, from.head_dim, from.scales[row * from.heads + head], out);
        break;
      default:
        std::copy_n(reinterpret_cast<const float*>(at), from.head_dim, out);
    }
  }
}

void load_rows(const CachedRows& from, std::int64_t at, Mat x) {
  DML_CHECK(x.cols == from.width() && at >= 0 && at + x.rows <= from.rows);
  parallel_ranges(x.rows, kRowsPerTask, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t h = 0; h < from.heads; ++h) load_head(from, h, at + r, 1, x.row(r) + h * from.head_dim);
  });
}

}  // namespace dml::kernels
