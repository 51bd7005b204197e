// A non-owning view of the keys or values of one layer in a cache: one row per token, in float32, bfloat16 or int8 (one
// scale per row and head: the largest magnitude / 127). The rows may be stored in pages, in any order.
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
  const std::int32_t* pages = nullptr;  // row r is in page pages[r / page_rows]; null: all rows are contiguous
  std::int64_t page_rows = 1;

  /// The index in memory of row r.
  std::int64_t place(std::int64_t r) const { return pages ? pages[r / page_rows] * page_rows + r % page_rows : r; }
  /// Whether rows [first, first + count) are contiguous in memory.
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

/// Stores x (n, heads · head_dim) as rows [at, at + n) of `to`.
void store_rows(ConstMat x, const CachedRows& to, std::int64_t at);
/// Loads rows [at, at + x.rows) as float32.
void load_rows(const CachedRows& from, std::int64_t at, Mat x);
/// Loads one head of rows [first, first + count) as dense float32 (count, head_dim), on the calling thread.
void load_head(const CachedRows& from, std::int64_t head, std::int64_t first, std::int64_t count, float* out);

}  // namespace dml::kernels
