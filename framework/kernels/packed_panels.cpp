#include "kernels/packed_panels.h"

#include <unistd.h>

#include <algorithm>

#include "core/bf16.h"
#include "core/error.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kMaxPanelCols = 256;   // of a panel of the second factor; a panel is packed at a time
constexpr std::int64_t kTransposedRows = 16;  // rows of a transposed factor that go to all panels at once

// The columns of a panel, of `floats` each, that fill half of the L2 cache. The other half is for the weights that are
// prefetched for the next panel, the rows of the first factor and the result (measured: bench/LOG.md).
std::int64_t max_panel_cols(std::int64_t floats) {
  static const long known = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const long cache = known > 0 ? known : 1L << 20;  // bytes
  const std::int64_t columns = cache / 2 / (floats * static_cast<std::int64_t>(sizeof(float)));
  return std::clamp(columns, 4 * product_loops().nr, kMaxPanelCols);
}

// Depth of a panel.
std::int64_t filled(std::int64_t depth) { return round_up(depth, product_loops().kr); }
bool stays_bf16(const Factor& f, Side side) {
  return side == Side::b && is_bf16(f.values) && product_loops().keeps_bf16;
}

template <class T>
struct Block {
  const T* data;
  std::int64_t ld;
};
// Values [row, row + rows) × [col, col + cols) in float32, in `room` if they are stored otherwise.
Block<float> values_of(const Factor& f, std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
                       float* room) {
  const Weight& w = f.values;
  if (w.dtype != DType::f32) {
    unpack(w, row, rows, col, cols, room);
    return {room, cols};
  }
  auto* values = static_cast<const float*>(w.data);
  if (f.panel > 0) {
    std::int64_t first = col / f.panel * f.panel, width = std::min(f.panel, w.cols - first);
    return {values + first * w.rows + row * width + col - first, width};
  }
  return {values + row * w.cols + col, w.cols};
}

// The same of a weight that is stored as bf16, or of NF4 whose panels stay bf16.
Block<bf16> bf16_of(const Weight& w, std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
                    float* room) {
  if (w.dtype == DType::bf16) return {static_cast<const bf16*>(w.data) + row * w.cols + col, w.cols};
  auto* values = reinterpret_cast<bf16*>(room);
  unpack_bf16(w, row, rows, col, cols, values);
  return {values, cols};
}

}  // namespace

std::int64_t step_of(const Factor& a) {
  const std::int64_t unit = std::max<std::int64_t>(16, product_loops().kr);
  return std::max(unit, equal_part(a.panel > 0 ? a.panel : a.depth(), product_loops().kc, unit));
}

std::int64_t row_floats(const Factor& f, Side side, std::int64_t depth) {
  return filled(depth) * (stays_bf16(f, side) ? 1 : product_loops().half_words) / 2;
}

void pack_part(const Factor& f, Side side, std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t depth,
               std::int64_t pitch, float* to, float* room) {
  const std::int64_t height = block_of(side);
  auto panels = [&](auto to_panel, auto values) {
    if (!f.transposed) {
      for (std::int64_t r = 0; r < count; r += height) {
        std::int64_t rows = std::min(height, count - r);
        auto block = values(first + r, rows, k, depth);
        to_panel(false, rows, depth, block.data, block.ld, to + r * pitch);
      }
      return;
    }
    const std::int64_t together = std::max(kTransposedRows, product_loops().kr);
    for (std::int64_t d = 0; d < depth; d += together) {
      std::int64_t rows = std::min(together, depth - d);
      auto block = values(k + d, rows, first, count);
      for (std::int64_t c = 0; c < count; c += height)
        to_panel(true, std::min(height, count - c), rows, block.data + c, block.ld,
                 to + c * pitch + height * row_floats(f, side, d));
    }
  };
  using At = std::int64_t;
  if (side == Side::b && (f.values.dtype == DType::bf16 || stays_bf16(f, side)))
    panels(product_loops().pack_b_bf16,
           [&](At row, At rows, At col, At some) { return bf16_of(f.values, row, rows, col, some, room); });
  else
    panels(side == Side::a ? product_loops().pack_a : product_loops().pack_b,
           [&](At row, At rows, At col, At some) { return values_of(f, row, rows, col, some, room); });
}

std::int64_t row_floats(const Factor& f, const Factor* tail, Side side, std::int64_t depth) {
  return row_floats(f, side, depth) + (tail ? row_floats(*tail, side, tail->depth()) : 0);
}

void pack_rows(const Factor& f, const Factor* tail, Side side, std::int64_t first, std::int64_t count, const Step& at,
               float* to, float* room) {
  const std::int64_t pitch = row_floats(f, tail, side, at.deep);
  pack_part(f, side, first, count, at.k, at.deep, pitch, to, room);
  if (tail)
    pack_part(*tail, side, first, count, 0, tail->depth(), pitch, to + block_of(side) * row_floats(f, side, at.deep),
              room);
}

std::int64_t packed_place(const Factor& f, const Factor* tail, Side side, std::int64_t row, const Step& at) {
  return round_up(f.count(), block_of(side)) * row_floats(f, side, at.k) + row * row_floats(f, tail, side, at.deep);
}

std::int64_t room_to_pack(std::int64_t count, std::int64_t depth) {
  return std::max(product_loops().nr * depth, std::max(kTransposedRows, product_loops().kr) * count);
}

namespace {

// Rows of a step, in `to` unless they are packed already.
const float* packed_part(const Factor& f, const Factor* tail, Side side, std::int64_t first, std::int64_t count,
                         const Step& at, float* to, float* room) {
  if (f.packed) return f.packed.data + packed_place(f, tail, side, first, at);
  pack_rows(f, tail, side, first, count, at, to, room);
  return to;
}

// The bytes that a later panel of the second factor is read from, to prefetch.
PrefetchRange bytes_of(const Factor& f, const Factor* tail, std::int64_t first, std::int64_t count, const Step& at) {
  const Weight& w = f.values;
  if (f.packed) {
    const auto bytes = static_cast<std::int64_t>(sizeof(float)) * count * row_floats(f, tail, Side::b, at.deep);
    return {reinterpret_cast<const char*>(f.packed.data + packed_place(f, tail, Side::b, first, at)), bytes, bytes, 1};
  }
  if (f.panel > 0 || w.dtype == DType::mxfp4) return {};
  std::int64_t row = f.transposed ? at.k : first, rows = f.transposed ? at.deep : count;
  std::int64_t col = f.transposed ? first : at.k, cols = f.transposed ? count : at.deep;
  return {static_cast<const char*>(w.data) + dtype_bytes(w.dtype, row * w.cols + col), dtype_bytes(w.dtype, w.cols),
          dtype_bytes(w.dtype, cols), rows};
}

// Floats of a row in the widest step of a product, the tail's after the last. Both factors use the first one's step.
std::int64_t deepest_row(const Factor& f, const Factor* tail, Side side, std::int64_t step) {
  return row_floats(f, tail, side, std::min(step, f.depth()));
}

}  // namespace

std::int64_t slab_size(const Factor& a, const Tail* tail, std::int64_t rows) {
  DML_CHECK(!(tail && a.packed));
  return a.packed ? 0 : rows * deepest_row(a, tail ? &tail->a : nullptr, Side::a, step_of(a));
}

const float* slab_part(const Factor& a, const Tail* tail, std::int64_t row, std::int64_t rows, const Step& at,
                       float* to) {
  return packed_part(a, at.ends ? &tail->a : nullptr, Side::a, row, rows, at, to, nullptr);
}

void multiply_packed(const Factor& b, const Factor* tail, const Step& at, std::int64_t rows, std::int64_t cols,
                     const float* left, const float* right, float* c, std::int64_t ldc, Write mode,
                     PrefetchRange ahead) {
  product_loops().gemm(rows, cols, filled(at.deep) + (tail ? filled(tail->depth()) : 0),
                       stays_bf16(b, Side::b) ? filled(at.deep) : 0, left, right, c, ldc, mode == Write::add, ahead);
}

Panels::Panels(const Factor& b, const Tail* tail, std::int64_t step, std::int64_t cols)
    : b_(b),
      tail_(tail),
      step_(step),
      cols_(equal_part(cols, max_panel_cols(row_floats(b, Side::b, std::min(step, b.depth()))), product_loops().nr)) {
  DML_CHECK(!b.packed || (step_of(b) == step && b.packed.tail == (tail ? tail->b.depth() : 0)));
}

std::int64_t Panels::room() const {
  if (b_.packed) return 0;
  const std::int64_t deep = std::max(std::min(step_, b_.depth()), tail_ ? tail_->b.depth() : 0);
  return panel() + room_to_pack(cols_, deep);
}

std::int64_t Panels::panel() const {
  return b_.packed ? 0 : cols_ * deepest_row(b_, tail_ ? &tail_->b : nullptr, Side::b, step_);
}

void Panels::multiply(std::int64_t rows, const float* left, const Step& at, std::int64_t col, std::int64_t cols,
                      std::int64_t end, float* c, std::int64_t ldc, Write mode, float* room) const {
  const Factor* behind = at.ends ? &tail_->b : nullptr;
  const std::int64_t stop = col + cols, later = at.k + at.deep;
  for (std::int64_t next; col < stop; c += next - col, col = next) {
    const std::int64_t width = std::min(cols_, stop - col);
    next = col + width;
    PrefetchRange ahead;
    if (next < end && (next < stop || later == b_.depth()))
      ahead = bytes_of(b_, behind, next, std::min(width, end - next), at);
    else if (later < b_.depth())
      ahead = bytes_of(b_, nullptr, stop - cols, std::min(cols_, cols),
                       {later, std::min(step_, b_.depth() - later), false});
    const float* right = packed_part(b_, behind, Side::b, col, width, at, room, room + panel());
    multiply_packed(b_, behind, at, rows, width, left, right, c, ldc, mode, ahead);
  }
}

}  // namespace dml::kernels
