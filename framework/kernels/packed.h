// Large products on packed factors, by the algorithm of Goto and van de Geijn (2008): a slab of one factor and a panel
// of the other are packed in the order in which the register block reads them and stay in the second-level cache.
//
// Every element of the result is a sum over steps of the depth, each a chain of multiply-adds, and the steps depend on
// the depth only. So its bits depend on its row and column, not on the tiles, whose sizes may depend on the number of
// threads.
#pragma once

#include <optional>

#include "core/matrix.h"
#include "kernels/task_list.h"
#include "kernels/weight.h"

namespace dml::kernels {

/// A factor in the layout of packed products.
struct PackedCopy {
  const float* data = nullptr;
  std::int64_t tail = 0;  // the depth of the tail that was packed with it

  explicit operator bool() const { return data != nullptr; }
};

struct Factor {
  Weight values;  // (count, depth), or (depth, count) when transposed
  bool transposed = false;
  std::int64_t panel = 0;  // if set, `values` is float32, stored as consecutive dense panels of so many columns (the
                           // last may be narrower)
  PackedCopy packed = {};  // if set, read instead of `values`
  std::int64_t count() const { return transposed ? values.cols : values.rows; }
  std::int64_t depth() const { return transposed ? values.rows : values.cols; }
};

enum class Side { a, b };  // the first and the second factor of a product

/// The size of a packed factor in floats, and packing, in parallel: for factors that many tiles or products share. A
/// tail's factor is packed with it.
std::int64_t packed_size(const Factor& f, Side side, const Factor* tail = nullptr);
Factor pack(const Factor& f, Side side, float* room, const Factor* tail = nullptr);
/// Packs another tail of the same depth into a packed factor.
void pack_tail(const Factor& f, Side side, float* packed, const Factor& tail);

/// An additional float32 term a · bᵀ of small depth, summed with the last step (an adapter).
struct Tail {
  Factor a, b;
};

/// c (a.count, b.count) = or += a · bᵀ. `a` is float32.
struct Product {
  Factor a, b;
  Mat c;
  Write mode = Write::set;
  std::optional<Tail> tail = {};
};

/// Computes all products; their tiles are one parallel loop.
void packed_products(const TaskList<Product>& products);

/// Computes rows [row, row + rows) and columns [col, col + cols) of a product on the calling thread, into c with
/// leading dimension ldc. For a packed factor, the tile must begin at a multiple of the register block. Uses
/// thread_scratch().
void packed_tile(const Factor& a, std::int64_t row, std::int64_t rows, const Factor& b, std::int64_t col,
                 std::int64_t cols, float* c, std::int64_t ldc, Write mode, const Tail* tail = nullptr);

}  // namespace dml::kernels
