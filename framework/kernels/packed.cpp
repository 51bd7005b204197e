#include "kernels/packed.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <thread>

#include "core/bf16.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/elementwise.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kSlabRows = 1036;  // packed at a time where the rows are not: 74 · 14, about two megabytes
constexpr std::int64_t kPanelCols = 256;  // packed at a time: half a megabyte
constexpr std::int64_t kShareCols = 128;  // what a thread takes of a task's last step
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
  const std::int64_t unit = std::max<std::int64_t>(16, product_loops().kr);
  return std::max(unit, equal_part(a.panel > 0 ? a.panel : a.depth(), product_loops().kc, unit));
}
std::int64_t block_of(Side side) { return side == Side::a ? product_loops().mr : product_loops().nr; }

// Depth of a panel, and the floats that one of its rows takes.
std::int64_t filled(std::int64_t depth) { return round_up(depth, product_loops().kr); }
bool stays_bf16(const Factor& f, Side side) { return side == Side::b && is_bf16(f.values) && product_loops().keeps_bf16; }
std::int64_t row_floats(const Factor& f, Side side, std::int64_t depth) {
  return filled(depth) * (stays_bf16(f, side) ? 1 : product_loops().halves) / 2;
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
    const std::int64_t together = std::max(kTurnedRows, product_loops().kr);
    for (std::int64_t d = 0; d < depth; d += together) {
      std::int64_t rows = std::min(together, depth - d);
      auto block = values(k + d, rows, first, count);
      for (std::int64_t c = 0; c < count; c += height)
        to_panel(true, std::min(height, count - c), rows, block.data + c, block.ld,
                 to + c * pitch + height * row_floats(f, side, d));
    }
  };
  using At = std::int64_t;
  if (side == Side::b && (f.values.storage == Storage::bf16 || stays_bf16(f, side)))
    panels(product_loops().pack_b_bf16,
           [&](At row, At rows, At col, At some) { return bf16_of(f.values, row, rows, col, some, room); });
  else
    panels(side == Side::a ? product_loops().pack_a : product_loops().pack_b,
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
  if (f.packed || f.panel > 0 || w.storage == Storage::mxfp4) return {};
  std::int64_t row = f.turned ? k : first, rows = f.turned ? depth : count;
  std::int64_t col = f.turned ? first : k, cols = f.turned ? count : depth;
  return {static_cast<const char*>(w.data) + storage_bytes(w.storage, row * w.cols + col),
          storage_bytes(w.storage, w.cols), storage_bytes(w.storage, cols), rows};
}

// How an (m, n) result is cut for the threads: the parts that finish first, with what packing costs. Every part packs its
// own, as what another core has just packed is slow to fetch; only who would wait otherwise reads another's slab.
struct Parts {
  std::int64_t rows, cols;
};
Parts parts_of(std::int64_t m, std::int64_t n) {
  const std::int64_t tall = product_loops().mr, wide = 2 * product_loops().nr, fewest = ceil_div(m, kSlabRows);
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

// Floats of a row in the widest step of a product, the tail's behind the last. Both factors go by the first one's step.
std::int64_t deepest_row(const Factor& f, const Factor* tail, Side side, std::int64_t step) {
  return row_floats(f, side, std::min(step, f.depth())) + (tail ? row_floats(*tail, side, tail->depth()) : 0);
}

// One step of the depth.
struct Step {
  std::int64_t k, deep;
  bool ends;  // the tail follows
};

// Floats of `rows` rows of the first factor in a step, and those rows, packed into `to` unless they are.
std::int64_t slab_size(const Factor& a, const Tail* tail, std::int64_t rows) {
  DML_CHECK(!(tail && a.packed));
  return a.packed ? 0 : rows * deepest_row(a, tail ? &tail->a : nullptr, Side::a, step_of(a));
}
const float* slab_part(const Factor& a, const Tail* tail, std::int64_t row, std::int64_t rows, const Step& at,
                       float* to) {
  return packed_part(a, at.ends ? &tail->a : nullptr, Side::a, row, rows, at.k, at.deep, to, nullptr);
}

// The second factor, packed panel by panel.
class Panels {
 public:
  // For at most `cols` columns at a time.
  Panels(const Factor& b, const Tail* tail, std::int64_t step, std::int64_t cols)
      : b_(b), tail_(tail), step_(step), cols_(equal_part(cols, kPanelCols, product_loops().nr)) {
    DML_CHECK((!b.packed || step_of(b) == step) && !(tail && b.packed));
  }
  // Floats.
  std::int64_t room() const {
    if (b_.packed) return 0;
    const std::int64_t deep = std::max(std::min(step_, b_.depth()), tail_ ? tail_->b.depth() : 0);
    return panel() + std::max(product_loops().nr * deep, std::max(kTurnedRows, product_loops().kr) * cols_);
  }
  // Columns [col, col + cols) of a product, c the first, from one step: `left` is the first factor's slab. Further ones, up
  // to `end`, may follow.
  void multiply(std::int64_t rows, const float* left, const Step& at, std::int64_t col, std::int64_t cols,
                std::int64_t end, float* c, std::int64_t ldc, Write mode, float* room) const {
    const Factor* behind = at.ends ? &tail_->b : nullptr;
    const std::int64_t stop = col + cols, later = at.k + at.deep;
    for (std::int64_t next; col < stop; c += next - col, col = next) {
      const std::int64_t width = std::min(cols_, stop - col);
      next = col + width;
      Ahead ahead;
      if (next < end && (next < stop || later == b_.depth()))
        ahead = bytes_of(b_, next, std::min(width, end - next), at.k, at.deep);
      else if (later < b_.depth())
        ahead = bytes_of(b_, stop - cols, std::min(cols_, cols), later, std::min(step_, b_.depth() - later));
      const float* right = packed_part(b_, behind, Side::b, col, width, at.k, at.deep, room, room + panel());
      product_loops().gemm(rows, width, filled(at.deep) + (behind ? filled(behind->depth()) : 0),
                          stays_bf16(b_, Side::b) ? filled(at.deep) : 0, left, right, c, ldc, mode == Write::add,
                          ahead);
    }
  }

 private:
  std::int64_t panel() const {
    return b_.packed ? 0 : cols_ * deepest_row(b_, tail_ ? &tail_->b : nullptr, Side::b, step_);
  }

  const Factor& b_;
  const Tail* tail_;
  std::int64_t step_, cols_;
};

// A task whose last step other threads may help with: they read the slab that its own thread has packed.
struct alignas(64) Shared {
  static constexpr std::int64_t kClosed = std::int64_t{1} << 62, kDone = kClosed / 2;
  std::atomic<std::int64_t> next = kClosed;  // the first column that nobody has taken
  const float* slab = nullptr;

  void open(const float* left) {
    slab = left;
    next.store(0, std::memory_order_release);
  }
  std::int64_t take(std::int64_t cols) { return next.fetch_add(cols, std::memory_order_acq_rel); }
  // Until it is open.
  void wait() const {
    while (next.load(std::memory_order_acquire) >= kClosed) std::this_thread::yield();
  }
  // Nobody waits for a task that ends early.
  struct Closing {
    Shared& task;
    ~Closing() {
      if (task.next.load(std::memory_order_relaxed) >= kClosed) task.next.store(kDone, std::memory_order_release);
    }
  };
};

// Closed, for the products of the calling thread.
std::span<Shared> shared_for(std::int64_t tasks) {
  thread_local std::unique_ptr<Shared[]> all;
  thread_local std::int64_t size = 0;
  if (size < tasks) all = std::make_unique<Shared[]>(static_cast<std::size_t>(tasks)), size = tasks;
  for (std::int64_t i = 0; i < tasks; ++i) all[i].next.store(Shared::kClosed, std::memory_order_relaxed);
  return {all.get(), static_cast<std::size_t>(tasks)};
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
  const std::int64_t tall = product_loops().mr, step = step_of(a), depth = a.depth();
  const std::int64_t slab_rows = a.packed ? rows : std::min(round_up(rows, tall), round_up(kSlabRows, tall));
  const std::int64_t slab = slab_size(a, tail, slab_rows);
  const Panels panels(b, tail, step, cols);
  float* room = thread_scratch(slab + panels.room()).data();
  for (std::int64_t top = 0; top < rows; top += slab_rows) {
    const std::int64_t height = std::min(slab_rows, rows - top);
    for (std::int64_t k = 0; k < depth; k += step) {
      const Step at{k, std::min(step, depth - k), tail && k + step >= depth};
      const float* left = slab_part(a, tail, row + top, height, at, room);
      panels.multiply(height, left, at, col, cols, col + cols, c + top * ldc, ldc, k > 0 ? Write::add : mode,
                      room + slab);
    }
  }
}

void packed_product(const Factor& a, const Factor& b, Mat c, Write mode, const Tail* tail) {
  DML_CHECK(b.depth() == a.depth() && a.count() == c.rows && b.count() == c.cols);
  DML_CHECK(a.values.storage == Storage::f32);
  if (a.depth() == 0 && mode == Write::set) fill(c.flat(), 0);
  if (c.empty() || a.depth() == 0) return;
  const Parts part = parts_of(c.rows, c.cols);
  const std::int64_t across = ceil_div(c.cols, part.cols), tasks = ceil_div(c.rows, part.rows) * across;
  const std::int64_t step = step_of(a), depth = a.depth(), last = (depth - 1) / step * step;
  const std::int64_t slab = slab_size(a, tail, round_up(part.rows, product_loops().mr));
  const Panels panels(b, tail, step, part.cols);
  const std::span<Shared> shared = shared_for(tasks);
  std::atomic<std::int64_t> begun = 0;
  struct Block {
    std::int64_t row, rows, col, end;
  };
  auto block_of_task = [&](std::int64_t i) {
    const std::int64_t row = i / across * part.rows, col = i % across * part.cols;
    return Block{row, std::min(part.rows, c.rows - row), col, std::min(col + part.cols, c.cols)};
  };
  auto multiply = [&](const Block& t, const float* left, const Step& at, std::int64_t col, std::int64_t cols,
                      float* room) {
    panels.multiply(t.rows, left, at, col, cols, t.end, c.row(t.row) + col, c.cols, at.k > 0 ? Write::add : mode, room);
  };
  auto take_last_step = [&](std::int64_t i, float* room) {
    const Block t = block_of_task(i);
    for (std::int64_t col; (col = t.col + shared[i].take(kShareCols)) < t.end;)
      multiply(t, shared[i].slab, {last, depth - last, tail != nullptr}, col, std::min(kShareCols, t.end - col), room);
  };
  parallel_for(tasks, [&](std::int64_t i) {
    begun.fetch_add(1, std::memory_order_relaxed);
    const Shared::Closing closing{shared[i]};
    const Block t = block_of_task(i);
    float* room = thread_scratch(slab + panels.room()).data();
    for (std::int64_t k = 0; k < last; k += step) {
      const Step at{k, step, false};
      multiply(t, slab_part(a, tail, t.row, t.rows, at, room), at, t.col, t.end - t.col, room + slab);
    }
    shared[i].open(slab_part(a, tail, t.row, t.rows, {last, depth - last, tail != nullptr}, room));
    take_last_step(i, room + slab);
    // Nothing is left to begin, so no slab will be packed over: those that are behind are helped.
    for (std::int64_t j = 0; j < tasks && begun.load(std::memory_order_relaxed) == tasks; ++j) {
      shared[j].wait();
      take_last_step(j, room + slab);
    }
  });
}

}  // namespace dml::kernels
