#include "kernels/packed.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/elementwise.h"
#include "kernels/packed_panels.h"
#include "kernels/packed_together.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kSlabRows = 1036;  // packed at a time where the rows are not: 74 · 14, about two megabytes
constexpr std::int64_t kShareCols = 128;  // columns of a task's last step that a thread takes at once
constexpr std::int64_t kPackRows = 8;     // register blocks of rows that one task packs
constexpr double kFarCost = 2;            // extra cost of packing a value that another core wrote, relative to packing
constexpr double kClearly = 0.95;  // share packing only if the estimated time is below this fraction of the other

// The division of an (m, n) result for a number of threads: the parts that finish first, with what packing costs. Every
// part packs its own, as what another core has just packed is slow to fetch; a thread reads another's slab only when it
// would otherwise be idle.
struct Parts {
  std::int64_t rows, cols;
  double time = 0;  // of a unit of the depth, in multiply-adds
};
// `packed`: the second factor is packed already.
Parts parts_of(std::int64_t m, std::int64_t n, bool packed, std::int64_t cores) {
  const std::int64_t mr = product_loops().mr, nr_pair = 2 * product_loops().nr, fewest = ceil_div(m, kSlabRows);
  const std::int64_t most_down = std::max(fewest, ceil_div(m, 8 * mr)), most_across = ceil_div(n, nr_pair);
  Parts best{m, n};
  for (std::int64_t down = fewest; down <= most_down && down <= 4 * cores + fewest; ++down)
    for (std::int64_t across = 1; across <= most_across && across <= 4 * cores; ++across) {
      Parts p{round_up(ceil_div(m, down), mr), round_up(ceil_div(n, across), nr_pair)};
      std::int64_t tasks = ceil_div(m, p.rows) * ceil_div(n, p.cols);
      auto rows = static_cast<double>(p.rows), cols = static_cast<double>(p.cols);
      // Rows are written by the thread that has them in every operation (core/parallel.h); of those of a task that
      // takes a part of the columns only, others wrote the rest.
      const double far = kFarCost * (1 - 1 / static_cast<double>(ceil_div(n, p.cols)));
      p.time = static_cast<double>(ceil_div(tasks, cores)) *
               (rows * cols + product_loops().packing * (rows + (packed ? 0 : cols) + far * rows));
      if (p.rows <= round_up(kSlabRows, mr) && (best.time == 0 || p.time < best.time)) best = p;
    }
  return best;
}

// A task whose last step other threads may help with: they read the slab that its own thread has packed.
struct alignas(64) Shared {
  static constexpr std::int64_t kClosed = std::int64_t{1} << 62, kDone = kClosed / 2;
  std::atomic<std::int64_t> next = kClosed;  // the first column that is not taken yet
  const float* slab = nullptr;

  void open(const float* left) {
    slab = left;
    next.store(0, std::memory_order_release);
  }
  std::int64_t take(std::int64_t cols) { return next.fetch_add(cols, std::memory_order_acq_rel); }
  // Waits until the task is open.
  void wait() const {
    while (next.load(std::memory_order_acquire) >= kClosed) std::this_thread::yield();
  }
  // Closes a task that ends early, so that no thread waits for it.
  struct Closing {
    Shared& task;
    ~Closing() {
      if (task.next.load(std::memory_order_relaxed) >= kClosed) task.next.store(kDone, std::memory_order_release);
    }
  };
};

// Shared state of the calling thread's products, all closed.
std::span<Shared> shared_for(std::int64_t tasks) {
  thread_local std::unique_ptr<Shared[]> all;
  thread_local std::int64_t size = 0;
  if (size < tasks) all = std::make_unique<Shared[]>(static_cast<std::size_t>(tasks)), size = tasks;
  for (std::int64_t i = 0; i < tasks; ++i) all[i].next.store(Shared::kClosed, std::memory_order_relaxed);
  return {all.get(), static_cast<std::size_t>(tasks)};
}

// The division of several products: each gets threads in proportion to its work.
struct Cut {
  Parts part;
  std::int64_t cols, end;  // of the result; its last task is before this
};
struct Cuts {
  std::span<const Cut> of;
  std::int64_t slab = 0, panels = 0;  // floats of scratch that any task needs

  std::int64_t tasks() const { return of.empty() ? 0 : of.back().end; }
  std::size_t product(std::int64_t task) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(of, task, {}, &Cut::end) - of.begin());
  }
  // The part of a product that a task computes: rows from `row` on, and columns [col, col + cols).
  struct Place {
    std::int64_t row, col, cols;
  };
  Place place(std::int64_t task, std::size_t p) const {
    const Cut& cut = of[p];
    const std::int64_t i = task - (p > 0 ? of[p - 1].end : 0), across = ceil_div(cut.cols, cut.part.cols);
    const std::int64_t col = i % across * cut.part.cols;
    return {i / across * cut.part.rows, col, std::min(cut.part.cols, cut.cols - col)};
  }
};

const Tail* tail_of(const Product& p) { return p.tail ? &*p.tail : nullptr; }

double work_of(const Product& p) { return static_cast<double>(p.c.size()) * static_cast<double>(p.a.depth()); }

// Checks the products, and does what takes no task. For the calling thread's own.
Cuts cut(const TaskList<Product>& products) {
  thread_local std::vector<Cut> all;
  all.clear();
  double work = 0;
  for (std::int64_t i = 0; i < products.size(); ++i) {
    const Product p = products[i];
    DML_CHECK(p.b.depth() == p.a.depth() && p.a.count() == p.c.rows && p.b.count() == p.c.cols);
    DML_CHECK(p.a.values.dtype == DType::f32);
    if (p.a.depth() == 0 && p.mode == Write::set) fill(p.c.flat(), 0);
    work += work_of(p);
  }
  Cuts cuts;
  std::int64_t end = 0;
  const std::int64_t most = threads();
  for (std::int64_t i = 0; i < products.size(); ++i) {
    const Product p = products[i];
    const double own = work_of(p);
    if (own == 0) {
      all.push_back({{1, 1}, 1, end});
      continue;
    }
    const std::int64_t cores = std::max<std::int64_t>(1, std::llround(static_cast<double>(most) * own / work));
    const Parts part = parts_of(p.c.rows, p.c.cols, bool(p.b.packed), cores);
    end += ceil_div(p.c.rows, part.rows) * ceil_div(p.c.cols, part.cols);
    all.push_back({part, p.c.cols, end});
    cuts.slab = std::max(cuts.slab, slab_size(p.a, tail_of(p), round_up(part.rows, product_loops().mr)));
    cuts.panels = std::max(cuts.panels, Panels(p.b, tail_of(p), step_of(p.a), part.cols).room());
  }
  cuts.of = all;
  return cuts;
}

// A task's part of one product.
struct PartOfProduct {
  const Product p;
  const Cuts::Place at;
  const std::int64_t rows, step;
  const Step last;
  const Panels panels;

  PartOfProduct(const TaskList<Product>& products, const Cuts& cuts, std::int64_t task, std::size_t i)
      : p(products[static_cast<std::int64_t>(i)]),
        at(cuts.place(task, i)),
        rows(std::min(cuts.of[i].part.rows, p.c.rows - at.row)),
        step(step_of(p.a)),
        last(last_step(p.a.depth(), step, p.tail.has_value())),
        panels(p.b, tail_of(p), step, cuts.of[i].part.cols) {}
  PartOfProduct(const PartOfProduct&) = delete;

  // Its rows of the first factor, packed into `room` unless they are.
  const float* slab(const Step& of, float* room) const { return slab_part(p.a, tail_of(p), at.row, rows, of, room); }
  // Columns [col, col + some) of its own, from one step.
  void multiply(const float* left, const Step& of, std::int64_t col, std::int64_t some, float* room) const {
    panels.multiply(rows, left, of, at.col + col, some, at.col + at.cols, p.c.row(at.row) + at.col + col, p.c.cols,
                    of.k > 0 ? Write::add : p.mode, room);
  }
};

}  // namespace

std::int64_t packed_size(const Factor& f, Side side, const Factor* tail) {
  return round_up(f.count(), block_of(side)) * row_floats(f, tail, side, f.depth());
}

Factor pack(const Factor& f, Side side, float* room, const Factor* tail) {
  const std::int64_t count = f.count(), depth = f.depth(), step = step_of(f);
  const std::int64_t part = kPackRows * block_of(side), parts = ceil_div(count, part);
  parallel_for(ceil_div(depth, step) * parts, [&](std::int64_t i) {
    const std::int64_t k = i / parts * step, first = i % parts * part, rows = std::min(part, count - first);
    const Step at{k, std::min(step, depth - k), tail && k + step >= depth};
    const Factor* behind = at.ends ? tail : nullptr;
    pack_rows(f, behind, side, first, rows, at, room + packed_place(f, behind, side, first, at),
              thread_scratch(f.values.dtype == DType::f32 ? 0 : room_to_pack(rows, at.deep)).data());
  });
  Factor packed = f;
  packed.packed = {room, tail ? tail->depth() : 0};
  return packed;
}

void pack_tail(const Factor& f, Side side, float* packed, const Factor& tail) {
  const Step last = last_step(f.depth(), step_of(f), true);
  const std::int64_t part = kPackRows * block_of(side);
  parallel_for(ceil_div(f.count(), part), [&](std::int64_t i) {
    const std::int64_t first = i * part;
    pack_part(
        tail, side, first, std::min(part, f.count() - first), 0, tail.depth(), row_floats(f, &tail, side, last.deep),
        packed + packed_place(f, &tail, side, first, last) + block_of(side) * row_floats(f, side, last.deep), nullptr);
  });
}

void packed_tile(const Factor& a, std::int64_t row, std::int64_t rows, const Factor& b, std::int64_t col,
                 std::int64_t cols, float* c, std::int64_t ldc, Write mode, const Tail* tail) {
  const std::int64_t mr = product_loops().mr, step = step_of(a), depth = a.depth();
  const std::int64_t slab_rows = a.packed ? rows : std::min(round_up(rows, mr), round_up(kSlabRows, mr));
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

void packed_products(const TaskList<Product>& products) {
  if (dry_run()) return;
  const Cuts cuts = cut(products);
  if (products.size() == 1 && cuts.tasks() > 0) {
    const Product p = products[0];
    const Together how = together(p, threads());
    if (how.steps > 0 && how.time < kClearly * cuts.of[0].part.time) return multiply_together(p, how);
  }
  const std::span<Shared> shared = shared_for(cuts.tasks());
  std::atomic<std::int64_t> begun = 0;
  auto take_last_step = [&](std::int64_t i, const PartOfProduct& part, float* room) {
    for (std::int64_t col; (col = shared[static_cast<std::size_t>(i)].take(kShareCols)) < part.at.cols;)
      part.multiply(shared[static_cast<std::size_t>(i)].slab, part.last, col, std::min(kShareCols, part.at.cols - col),
                    room);
  };
  parallel_for(cuts.tasks(), [&](std::int64_t i) {
    begun.fetch_add(1, std::memory_order_relaxed);
    Shared& own = shared[static_cast<std::size_t>(i)];
    const Shared::Closing closing{own};
    float* room = thread_scratch(cuts.slab + cuts.panels).data();
    const PartOfProduct part(products, cuts, i, cuts.product(i));
    for (std::int64_t k = 0; k < part.last.k; k += part.step) {
      const Step at{k, part.step, false};
      part.multiply(part.slab(at, room), at, 0, part.at.cols, room + cuts.slab);
    }
    own.open(part.slab(part.last, room));
    take_last_step(i, part, room + cuts.slab);
    // All tasks have begun, so no slab is overwritten: helps the tasks that are still running.
    for (std::int64_t j = 0; j < cuts.tasks() && begun.load(std::memory_order_relaxed) == cuts.tasks(); ++j) {
      const Shared& other = shared[static_cast<std::size_t>(j)];
      other.wait();
      const std::size_t product = cuts.product(j);
      if (other.next.load(std::memory_order_relaxed) < cuts.place(j, product).cols)
        take_last_step(j, PartOfProduct(products, cuts, j, product), room + cuts.slab);
    }
  });
}

}  // namespace dml::kernels
