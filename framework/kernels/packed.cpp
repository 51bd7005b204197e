#include "kernels/packed.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kDepth = 512;      // of one step
constexpr std::int64_t kSlabRows = 518;   // with kDepth a megabyte; 37 · 14, and 12 or 6 divide 516
constexpr std::int64_t kPanelCols = 256;  // packed at a time: half a megabyte
constexpr std::int64_t kTurnedRows = 16;  // rows of a turned factor that go to all panels at once
constexpr double kPacking = 10;           // packing a value takes as long as so many multiply-adds

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t unit) { return ceil_div(a, unit) * unit; }
// [0, size) in as few equal parts as `most` allows, each but the last a multiple of `unit`.
std::int64_t equal_part(std::int64_t size, std::int64_t most, std::int64_t unit) {
  return round_up(ceil_div(size, ceil_div(size, most)), unit);
}
std::int64_t step_of(const Factor& a) {
  return a.panel > 0 ? a.panel : std::max<std::int64_t>(16, equal_part(a.depth(), kDepth, 16));
}

struct Block {
  const float* data;
  std::int64_t ld;
};
// Values [row, row + rows) × [col, col + cols) in float32, in `room` if they are stored otherwise.
Block block_of(const Factor& f, std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols, float* room) {
  const Weight& w = f.values;
  if (w.storage != Storage::f32) {
    unpack(w, row, rows, col, cols, room);
    return {room, cols};
  }
  auto* values = static_cast<const float*>(w.data);
  if (f.panel > 0) return {values + col * w.rows + row * cols, cols};
  return {values + row * w.cols + col, w.cols};
}

// Rows [first, first + count) of a factor at depths [k, k + depth), as panels of `height`.
void pack(const Factor& f, std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t depth,
          std::int64_t height, decltype(Loops::pack_tall) to_panel, float* to, float* room) {
  if (!f.turned) {
    for (std::int64_t r = 0; r < count; r += height) {
      std::int64_t rows = std::min(height, count - r);
      Block block = block_of(f, first + r, rows, k, depth, room);
      to_panel(false, rows, depth, block.data, block.ld, to + r * depth);
    }
    return;
  }
  for (std::int64_t d = 0; d < depth; d += kTurnedRows) {
    std::int64_t rows = std::min(kTurnedRows, depth - d);
    Block block = block_of(f, k + d, rows, first, count, room);
    for (std::int64_t c = 0; c < count; c += height)
      to_panel(true, std::min(height, count - c), rows, block.data + c, block.ld, to + c * depth + d * height);
  }
}

// How an (m, n) result is cut for the threads: the parts that finish first, with what packing costs.
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
      double time = static_cast<double>(ceil_div(tasks, threads())) * (rows * cols + kPacking * (rows + cols));
      if (p.rows <= round_up(kSlabRows, tall) && (least == 0 || time < least)) best = p, least = time;
    }
  return best;
}

}  // namespace

void packed_tile(const Factor& a, std::int64_t row, std::int64_t rows, const Factor& b, std::int64_t col,
                 std::int64_t cols, float* c, std::int64_t ldc, Write mode) {
  const Loops& loop = loops();
  const std::int64_t depth = a.depth(), step = step_of(a), slack = 16;
  const std::int64_t slab_rows = std::min(round_up(rows, loop.tall), round_up(kSlabRows, loop.tall));
  const std::int64_t panel_cols = std::min(round_up(cols, loop.wide), kPanelCols);
  const std::int64_t slab_size = slab_rows * step + slack, panels_size = panel_cols * step + slack;
  float* slab = thread_scratch(slab_size + panels_size + std::max(loop.wide * step, kTurnedRows * panel_cols)).data();
  float *panels = slab + slab_size, *room = panels + panels_size;
  for (std::int64_t top = 0; top < rows; top += slab_rows) {
    const std::int64_t height = std::min(slab_rows, rows - top);
    for (std::int64_t k = 0; k < depth; k += step) {
      const std::int64_t deep = std::min(step, depth - k);
      pack(a, row + top, height, k, deep, loop.tall, loop.pack_tall, slab, nullptr);
      for (std::int64_t left = 0; left < cols; left += panel_cols) {
        const std::int64_t width = std::min(panel_cols, cols - left);
        pack(b, col + left, width, k, deep, loop.wide, loop.pack_wide, panels, room);
        loop.packed_gemm(height, width, deep, slab, panels, c + top * ldc + left, ldc, k > 0 || mode == Write::add);
      }
    }
  }
}

void packed_product(const Factor& a, const Factor& b, Mat c, Write mode) {
  DML_CHECK(b.depth() == a.depth() && a.count() == c.rows && b.count() == c.cols);
  DML_CHECK(a.values.storage == Storage::f32);
  if (c.empty()) return;
  const Parts part = parts_of(c.rows, c.cols);
  const std::int64_t down = ceil_div(c.rows, part.rows), across = ceil_div(c.cols, part.cols);
  parallel_for(down * across, [&](std::int64_t i) {
    std::int64_t row = i / across * part.rows, col = i % across * part.cols;
    packed_tile(a, row, std::min(part.rows, c.rows - row), b, col, std::min(part.cols, c.cols - col), c.row(row) + col,
                c.cols, mode);
  });
}

}  // namespace dml::kernels
