// Keys or values of one layer as a cache keeps them: a row per token, in float32, bfloat16 or int8 (one scale per row
// and head, its largest magnitude / 127). A view; the cache owns the memory. The rows may lie in pages, in any order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix.h"
#include "kernels/weight.h"

namespace dml::kernels {

struct CachedRows {
  DType dtype = DType::f32;
  std::int64_t rows = 0, heads = 1, head_dim = 1;
  std::byte* data = nullptr;            // rows × heads × head_dim
  float* scales = nullptr;              // int8: rows × heads
  const std::int32_t* pages = nullptr;  // row r lies in page pages[r / page_rows]; null: all rows one after another
  std::int64_t page_rows = 1;

  /// The physical row of row r.
  std::int64_t place(std::int64_t r) const { return pages ? pages[r / page_rows] * page_rows + r % page_rows : r; }
  /// Whether rows [first, first + count) are adjacent in memory.
  bool contiguous(std::int64_t first, std::int64_t count) const {
    for (std::int64_t p = first / page_rows; pages && p < (first + count - 1) / page_rows; ++p)
      if (pages[p + 1] != pages[p] + 1) return false;
    return true;
  }
  std::int64_t width() const { return heads * head_dim; }
  CachedRows head_of(std::int64_t count) const {
    CachedRows part = *this;
    part.rows = count;
    return part;
  }
};

/// Stores x as rows [at, at + x.rows) of `to`.
void store_rows(ConstMat x, const CachedRows& to, std::int64_t at);
/// Loads these rows as float32, with the rounding of their type.
void load_rows(const CachedRows& from, std::int64_t at, Mat x);
/// One head of rows [first, first + count), dense (count, head_dim), on the calling thread.
void load_head(const CachedRows& from, std::int64_t head, std::int64_t first, std::int64_t count, float* out);

}  // namespace dml::kernels
