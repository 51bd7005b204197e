// Large products on packed factors, the algorithm of Goto and van de Geijn (2008): a slab of one factor and
// a panel of the other meet in the second-level cache, both laid out in the order in which the register block reads
// them.
//
// Every element of the result is a sum over steps of the depth, each one chain of multiply-adds, and the steps depend
// on the depth alone. So its bits depend on its own row and column, not on the tiles: those may follow the number of
// threads.
#pragma once

#include <optional>

#include "core/matrix.h"
#include "kernels/task_list.h"
#include "kernels/weight.h"

namespace dml::kernels {

struct Factor {
  Weight values;  // (count, depth), or (depth, count) when transposed
  bool transposed = false;
  std::int64_t panel = 0;  // if set, values is float32 and its columns lie in dense panels of so many (the last may be
                           // narrower), one after another
  const float* packed = nullptr;  // if set, what `pack` made of it
  std::int64_t count() const { return transposed ? values.cols : values.rows; }
  std::int64_t depth() const { return transposed ? values.rows : values.cols; }
};

enum class Side { a, b };  // the first factor of a product, the second

/// Floats that packing all of a factor takes, and the packing, in parallel: for float32 factors that many tiles share.
std::int64_t packed_size(const Factor& f, Side side);
Factor pack(const Factor& f, Side side, float* room);

/// A further term a · bᵀ of a product, of small depth, float32: summed up with the last step.
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

/// In parallel, the tiles of all of them together.
void packed_products(const TaskList<Product>& products);

/// Rows [row, row + rows) and columns [col, col + cols) of a product on the calling thread; `c` is its first element,
/// rows ldc apart. Of a packed factor the tile begins at a multiple of the register block. Takes the thread's scratch.
void packed_tile(const Factor& a, std::int64_t row, std::int64_t rows, const Factor& b, std::int64_t col,
                 std::int64_t cols, float* c, std::int64_t ldc, Write mode, const Tail* tail = nullptr);

}  // namespace dml::kernels
