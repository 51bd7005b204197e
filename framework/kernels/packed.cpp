#include "kernels/packed.h"

#include <algorithm>

#include "core/bf16.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/elementwise.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kSlabRows = 1036;  // packed at a time where the rows are not: 74 · 14, about two megabytes
constexpr std::int64_t kPanelCols = 256;  // packed at a time: half a megabyte
constexpr std::int64_t kTurnedRows = 16;  // rows of a turned factor that go to all panels at once
constexpr std::int64_t kPackRows = 8;     // register blocks of rows that one task packs
constexpr double kPacking = 10;           // packing a value takes as long as so many multiply-adds
constexpr double kFar = 20;               // and so many more if another core wrote it

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t unit) { return ceil_div(a, unit) * unit; }
// [0, size) in as few equal parts as `most` allows, each but the last a multiple of `unit`.
std::int64_t equal_part(std::int64_t size, std::int64_t most, std::int64_t unit) {
  return round_up(ceil_div(size, ceil_div(size, most)), unit);
}
std::int64_t step_of(const Factor& a) {
  const std::int64_t unit = std::max<std::int64_t>(16, loops().grain);
  return std::max(unit, equal_part(a.panel > 0 ? a.panel : a.depth(), loops().step, unit));
}
std::int64_t block_of(Side side) { return side == Side::tall ? loops().tall : loops().wide; }

// Depth of a panel, and the floats that one of its rows takes.
std::int64_t filled(std::int64_t depth) { return round_up(depth, loops().grain); }
bool stays_bf16(const Factor& f, Side side) { return side == Side::wide && is_bf16(f.values) && loops().keeps_bf16; }
std::int64_t row_floats(const Factor& f, Side side, std::int64_t depth) {
  return filled(depth) * (stays_bf16(f, side) ? 1 : loops().halves) / 2;
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
  if (w.storage != Storage::f32) {
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
  if (w.storage == Storage::bf16) return {static_cast<const bf16*>(w.data) + row * w.cols + col, w.cols};
  auto* values = reinterpret_cast<bf16*>(room);
  unpack_bf16(w, row, rows, col, cols, values);
  return {values, cols};
}

// Rows [first, first + count) of a factor at depths [k, k + depth), in panels whose rows take `pitch` floats.
void pack_part(const Factor& f, Side side, std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t depth,
               std::int64_t pitch, float* to, float* room) {
  const std::int64_t height = block_of(side);
  auto panels = [&](auto to_panel, auto values) {
    if (!f.turned) {
      for (std::int64_t r = 0; r < count; r += height) {
        std::int64_t rows = std::min(height, count - r);
        auto block = values(first + r, rows, k, depth);
        to_panel(false, rows, depth, block.data, block.ld, to + r * pitch);
      }
      return;
    }
    const std::int64_t together = std::max(kTurnedRows, loops().grain);
    for (std::int64_t d = 0; d < depth; d += together) {
      std::int64_t rows = std::min(together, depth - d);
      auto block = values(k + d, rows, first, count);
      for (std::int64_t c = 0; c < count; c += height)
        to_panel(true, std::min(height, count - c), rows, block.data + c, block.ld,
                 to + c * pitch + height * row_floats(f, side, d));
    }
  };
  using At = std::int64_t;
  if (side == Side::wide && (f.values.storage == Storage::bf16 || stays_bf16(f, side)))
    panels(loops().pack_wide_bf16,
           [&](At row, At rows, At col, At some) { return bf16_of(f.values, row, rows, col, some, room); });
  else
    panels(side == Side::tall ? loops().pack_tall : loops().pack_wide,
           [&](At row, At rows, At col, At some) { return values_of(f, row, rows, col, some, room); });
}

// The same, packed into `to` unless they are; behind it the tail's.
const float* packed_part(const Factor& f, const Factor* tail, Side side, std::int64_t first, std::int64_t count,
                         std::int64_t k, std::int64_t depth, float* to, float* room) {
  const std::int64_t own = row_floats(f, side, depth);
  if (f.packed) return f.packed + round_up(f.count(), block_of(side)) * row_floats(f, side, k) + first * own;
  const std::int64_t pitch = own + (tail ? row_floats(*tail, side, tail->depth()) : 0);
  pack_part(f, side, first, count, k, depth, pitch, to, room);
  if (tail) pack_part(*tail, side, first, count, 0, tail->depth(), pitch, to + block_of(side) * own, room);
  return to;
}

// The bytes a later panel will be packed from.
Ahead bytes_of(const Factor& f, std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t depth) {
  const Weight& w = f.values;
  if (f.packed || f.panel > 0) return {};
  std::int64_t row = f.turned ? k : first, rows = f.turned ? depth : count;
  std::int64_t col = f.turned ? first : k, cols = f.turned ? count : depth;
  return {static_cast<const char*>(w.data) + storage_bytes(w.storage, row * w.cols + col),
          storage_bytes(w.storage, w.cols), storage_bytes(w.storage, cols), rows};
}

// How an (m, n) result is cut for the threads: the parts that finish first, with what packing costs. Every part packs its
// own: what another core has just packed is slow to fetch.
struct Parts {
  std::int64_t rows, cols;
};
Parts parts_of(std::int64_t m, std::int64_t n) {
  const std::int64_t tall = loops().tall, wide = 2 * loops().wide, fewest = ceil_div(m, kSlabRows);
  const std::int64_t most_down = std::max(fewest, ceil_div(m, 8 * tall)), most_across = ceil_div(n, wide);
  Parts best{m, n};
  double least = 0;
  for (std::int64_t down = fewest; down <= most_down && down <= 4 * threads() + fewest; ++down)
    for (std::int64_t across = 1; across <= most_across && across <= 4 * threads(); ++across) {
      Parts p{round_up(ceil_div(m, down), tall), round_up(ceil_div(n, across), wide)};
      std::int64_t tasks = ceil_div(m, p.rows) * ceil_div(n, p.cols);
      auto rows = static_cast<double>(p.rows), cols = static_cast<double>(p.cols);
      // Rows are written by the thread that has them in every operation (core/parallel.h); of those of a task that takes a
      // part of the columns only, others wrote the rest.
      const double far = kFar * (1 - 1 / static_cast<double>(ceil_div(n, p.cols)));
      double time =
          static_cast<double>(ceil_div(tasks, threads())) * (rows * cols + kPacking * (rows + cols) + far * rows);
      if (p.rows <= round_up(kSlabRows, tall) && (least == 0 || time < least)) best = p, least = time;
    }
  return best;
}

}  // namespace

std::int64_t packed_size(const Factor& f, Side side) {
  return round_up(f.count(), block_of(side)) * row_floats(f, side, f.depth());
}

Factor pack(const Factor& f, Side side, float* room) {
  const std::int64_t height = block_of(side), count = f.count(), depth = f.depth(), step = step_of(f);
  const std::int64_t part = kPackRows * height, parts = ceil_div(count, part);
  DML_CHECK(f.values.storage == Storage::f32);
  parallel_for(ceil_div(depth, step) * parts, [&](std::int64_t i) {
    std::int64_t k = i / parts * step, first = i % parts * part, deep = std::min(step, depth - k);
    const std::int64_t pitch = row_floats(f, side, deep);
    pack_part(f, side, first, std::min(part, count - first), k, deep, pitch,
              room + round_up(count, height) * row_floats(f, side, k) + first * pitch, nullptr);
  });
  Factor packed = f;
  packed.packed = room;
  return packed;
}

void packed_tile(const Factor& a, std::int64_t row, std::int64_t rows, const Factor& b, std::int64_t col,
                 std::int64_t cols, float* c, std::int64_t ldc, Write mode, const Tail* tail) {
  const Loops& loop = loops();
  const std::int64_t step = step_of(a), depth = a.depth(), deepest = std::min(step, depth);
  const std::int64_t slab_rows = a.packed ? rows : std::min(round_up(rows, loop.tall), round_up(kSlabRows, loop.tall));
  const std::int64_t panel_cols = equal_part(cols, kPanelCols, loop.wide);
  auto size = [&](const Factor& f, const Factor* further, Side side, std::int64_t count) {
    std::int64_t pitch = row_floats(f, side, deepest) + (further ? row_floats(*further, side, further->depth()) : 0);
    return f.packed ? 0 : count * pitch;
  };
  const std::int64_t slab_size = size(a, tail ? &tail->a : nullptr, Side::tall, slab_rows);
  const std::int64_t panel_size = size(b, tail ? &tail->b : nullptr, Side::wide, panel_cols);
  const std::int64_t most_deep = std::max(deepest, tail ? tail->b.depth() : 0);
  const std::int64_t room_size =
      b.packed ? 0 : std::max(loop.wide * most_deep, std::max(kTurnedRows, loop.grain) * panel_cols);
  DML_CHECK((!b.packed || step_of(b) == step) && !(tail && (a.packed || b.packed)));
  float* slab = thread_scratch(slab_size + panel_size + room_size).data();
  float *panel = slab + slab_size, *room = panel + panel_size;
  for (std::int64_t top = 0; top < rows; top += slab_rows) {
    const std::int64_t height = std::min(slab_rows, rows - top);
    for (std::int64_t k = 0; k < depth; k += step) {
      const std::int64_t deep = std::min(step, depth - k);
      const bool ends = tail && k + deep == depth;
      const float* left_factor =
          packed_part(a, ends ? &tail->a : nullptr, Side::tall, row + top, height, k, deep, slab, nullptr);
      for (std::int64_t left = 0; left < cols; left += panel_cols) {
        const std::int64_t width = std::min(panel_cols, cols - left), next = left + width;
        Ahead ahead;
        if (next < cols) ahead = bytes_of(b, col + next, std::min(panel_cols, cols - next), k, deep);
        else if (k + deep < depth)
          ahead = bytes_of(b, col, std::min(panel_cols, cols), k + deep, std::min(step, depth - k - deep));
        const float* right_factor =
            packed_part(b, ends ? &tail->b : nullptr, Side::wide, col + left, width, k, deep, panel, room);
        loop.packed_gemm(height, width, filled(deep) + (ends ? filled(tail->a.depth()) : 0),
                         stays_bf16(b, Side::wide) ? filled(deep) : 0, left_factor, right_factor, c + top * ldc + left,
                         ldc, k > 0 || mode == Write::add, ahead);
      }
    }
  }
}

void packed_product(const Factor& a, const Factor& b, Mat c, Write mode, const Tail* tail) {
  DML_CHECK(b.depth() == a.depth() && a.count() == c.rows && b.count() == c.cols);
  DML_CHECK(a.values.storage == Storage::f32);
  if (a.depth() == 0 && mode == Write::set) fill(c.flat(), 0);
  if (c.empty() || a.depth() == 0) return;
  const Parts part = parts_of(c.rows, c.cols);
  const std::int64_t down = ceil_div(c.rows, part.rows), across = ceil_div(c.cols, part.cols);
  parallel_for(down * across, [&](std::int64_t i) {
    std::int64_t row = i / across * part.rows, col = i % across * part.cols;
    packed_tile(a, row, std::min(part.rows, c.rows - row), b, col, std::min(part.cols, c.cols - col), c.row(row) + col,
                c.cols, mode, tail);
  });
}

}  // namespace dml::kernels
