// Factors of packed products in the layout that the register block reads: steps of the depth, sizes, and packing. Used
// by packed.cpp and packed_together.cpp only.
#pragma once

#include "core/rounding.h"
#include "kernels/packed.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {

/// The size of [0, size) in as few equal parts as `most` allows, each but the last a multiple of `unit`.
inline std::int64_t equal_part(std::int64_t size, std::int64_t most, std::int64_t unit) {
  return round_up(ceil_div(size, ceil_div(size, most)), unit);
}
/// The number of rows of a factor's panels.
inline std::int64_t block_of(Side side) { return side == Side::a ? product_loops().mr : product_loops().nr; }
/// The depth of a step of a product whose first factor is `a`.
std::int64_t step_of(const Factor& a);
/// Floats of one row of a panel; with those of a tail that follows, unless it is null.
std::int64_t row_floats(const Factor& f, Side side, std::int64_t depth);
std::int64_t row_floats(const Factor& f, const Factor* tail, Side side, std::int64_t depth);

/// One step of the depth.
struct Step {
  std::int64_t k, deep;
  bool ends;  // the last step, which includes the tail
};
inline Step last_step(std::int64_t depth, std::int64_t step, bool with_tail) {
  const std::int64_t k = (depth - 1) / step * step;
  return {k, depth - k, with_tail};
}

/// Rows [first, first + count) of a factor at depths [k, k + depth), in panels whose rows take `pitch` floats. `room`:
/// for values that are not stored as float32.
void pack_part(const Factor& f, Side side, std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t depth,
               std::int64_t pitch, float* to, float* room);

/// Rows of a factor at the depths of a step, packed into `to`; after them the tail's, unless it is null.
void pack_rows(const Factor& f, const Factor* tail, Side side, std::int64_t first, std::int64_t count, const Step& at,
               float* to, float* room);
/// The offset of row `row`, a multiple of the register block, in a step of a packed factor; `tail`: its tail, or null.
std::int64_t packed_place(const Factor& f, const Factor* tail, Side side, std::int64_t row, const Step& at);
/// Floats of `room` that packing takes: `depth` of `count` rows.
std::int64_t room_to_pack(std::int64_t count, std::int64_t depth);

/// Floats of `rows` rows of the first factor in a step, and those rows, packed into `to` unless they are.
std::int64_t slab_size(const Factor& a, const Tail* tail, std::int64_t rows);
const float* slab_part(const Factor& a, const Tail* tail, std::int64_t row, std::int64_t rows, const Step& at,
                       float* to);

/// c (rows, cols) = or += the product of packed rows of both factors at a step; `tail` is b's.
void multiply_packed(const Factor& b, const Factor* tail, const Step& at, std::int64_t rows, std::int64_t cols,
                     const float* left, const float* right, float* c, std::int64_t ldc, Write mode,
                     PrefetchRange ahead = {});

/// The second factor, packed panel by panel.
class Panels {
 public:
  /// For at most `cols` columns at a time. Keeps references to b and tail.
  Panels(const Factor& b, const Tail* tail, std::int64_t step, std::int64_t cols);
  /// Floats.
  std::int64_t room() const;
  /// Columns [col, col + cols) of a product, c the first, from one step: `left` is the first factor's slab. Further
  /// ones, up to `end`, may follow.
  void multiply(std::int64_t rows, const float* left, const Step& at, std::int64_t col, std::int64_t cols,
                std::int64_t end, float* c, std::int64_t ldc, Write mode, float* room) const;

 private:
  std::int64_t panel() const;

  const Factor& b_;
  const Tail* tail_;
  std::int64_t step_, cols_;
};

}  // namespace dml::kernels
