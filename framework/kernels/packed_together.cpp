#include "kernels/packed_together.h"

#include <algorithm>
#include <optional>

#include "core/parallel.h"
#include "core/profile.h"
#include "core/virtual_threads.h"
#include "kernels/packed_panels.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kRoomOfThread = 256 << 10;  // floats of packed operands for each thread
constexpr std::int64_t kMaxTileRows = 1036;        // of a tile
constexpr std::int64_t kPieceCols = 64;            // at most, of a tile's columns that a thread takes at once
constexpr std::int64_t kTasksOfThread = 4, kMaxBlocks = 8;
constexpr double kReading = 0.3;  // cost of reading a packed value, relative to packing it
constexpr double kMeeting = 5e4;  // time until all threads have met, likewise

// The operands of a product and the layout of packed steps: the first factor's rows, then the second one's.
class Operands {
 public:
  explicit Operands(const Product& p)
      : p_(p), step_(step_of(p.a)), size_a_(size_of(Side::a)), size_(size_a_ + size_of(Side::b)) {}

  std::int64_t steps() const { return ceil_div(p_.a.depth(), step_); }
  std::int64_t size() const { return size_; }  // floats of a step
  /// The register blocks to pack.
  std::int64_t blocks(Side side) const {
    return factor(side).packed ? 0 : ceil_div(factor(side).count(), block_of(side));
  }
  Step step(std::int64_t i) const {
    const Step last = last_step(p_.a.depth(), step_, p_.tail.has_value());
    return i * step_ == last.k ? last : Step{i * step_, step_, false};
  }
  const Factor& factor(Side side) const { return side == Side::a ? p_.a : p_.b; }
  const Factor* tail(Side side, const Step& at) const {
    return !at.ends ? nullptr : side == Side::a ? &p_.tail->a : &p_.tail->b;
  }
  /// Where row `row`, a multiple of the register block, is in a packed step.
  std::int64_t place(Side side, const Step& at, std::int64_t row) const {
    return (side == Side::b ? size_a_ : 0) + row * row_floats(factor(side), tail(side, at), side, at.deep);
  }
  /// Columns of the second factor from `col` on, of a step that is packed in `room`.
  const float* right(const Step& at, std::int64_t col, const float* room) const {
    if (p_.b.packed) return p_.b.packed.data + packed_place(p_.b, tail(Side::b, at), Side::b, col, at);
    return room + place(Side::b, at, col);
  }

 private:
  std::int64_t size_of(Side side) const {
    const Factor* behind = !p_.tail ? nullptr : side == Side::a ? &p_.tail->a : &p_.tail->b;
    return blocks(side) * block_of(side) * row_floats(factor(side), behind, side, std::min(step_, p_.a.depth()));
  }

  const Product& p_;
  std::int64_t step_, size_a_, size_;
};

// Consecutive steps, packed one after another.
struct Group {
  std::int64_t first, last;
  float* room;
  std::int64_t steps() const { return last - first; }
};

// Packs a group: a task packs some register blocks of one operand.
class Packing {
 public:
  Packing(const Operands& o, const Group& to) : o_(o), to_(to) {
    const std::int64_t in_a = o.blocks(Side::a), in_b = o.blocks(Side::b), all = to.steps() * (in_a + in_b);
    blocks_ = std::clamp<std::int64_t>(all / (kTasksOfThread * threads()), 1, kMaxBlocks);
    parts_a_ = ceil_div(in_a, blocks_), parts_ = parts_a_ + ceil_div(in_b, blocks_);
  }
  std::int64_t tasks() const { return to_.steps() * parts_; }
  void run(std::int64_t task) const {
    const std::int64_t step = task / parts_, part = task % parts_;
    const Step at = o_.step(to_.first + step);
    const Side side = part < parts_a_ ? Side::a : Side::b;
    const std::int64_t rows = blocks_ * block_of(side), row = (part - (side == Side::a ? 0 : parts_a_)) * rows;
    const Factor& f = o_.factor(side);
    pack_rows(f, o_.tail(side, at), side, row, std::min(rows, f.count() - row), at,
              to_.room + step * o_.size() + o_.place(side, at, row),
              thread_scratch(room_to_pack(rows, at.deep)).data());
  }

 private:
  const Operands& o_;
  const Group to_;
  std::int64_t blocks_ = 0, parts_a_ = 0, parts_ = 0;
};

// Multiplies a packed group: a task computes a piece of a tile.
class Multiplying {
 public:
  Multiplying(const Product& p, const Operands& o, const Together& how, const Group& from)
      : p_(p),
        o_(o),
        from_(from),
        rows_(how.rows),
        cols_(how.cols),
        piece_(equal_part(how.cols, kPieceCols, product_loops().nr)),
        across_(ceil_div(p.c.cols, how.cols)),
        pieces_(ceil_div(how.cols, piece_)) {}
  std::int64_t tasks() const { return from_.steps() > 0 ? ceil_div(p_.c.rows, rows_) * across_ * pieces_ : 0; }
  void run(std::int64_t task) const {
    const std::int64_t tile = task / pieces_, row = tile / across_ * rows_;
    const std::int64_t first = tile % across_ * cols_, col = first + task % pieces_ * piece_;
    const std::int64_t rows = std::min(rows_, p_.c.rows - row);
    const std::int64_t cols = std::min({piece_, first + cols_ - col, p_.c.cols - col});
    for (std::int64_t k = from_.first; k < from_.last && cols > 0; ++k) {
      const Step at = o_.step(k);
      const float* packed = from_.room + (k - from_.first) * o_.size();
      multiply_packed(p_.b, o_.tail(Side::b, at), at, rows, cols, packed + o_.place(Side::a, at, row),
                      o_.right(at, col, packed), p_.c.row(row) + col, p_.c.cols, k > 0 ? Write::add : p_.mode);
    }
  }

 private:
  const Product& p_;
  const Operands& o_;
  const Group from_;
  const std::int64_t rows_, cols_, piece_, across_, pieces_;
};

// Runs all tasks of both, in parallel. Every thread starts with an equal share of each kind: it multiplies, then packs.
void run_tasks(const Multiplying& multiplying, const Packing& packing) {
  const std::int64_t all = threads(), products = ceil_div(multiplying.tasks(), all);
  const std::int64_t each = products + ceil_div(packing.tasks(), all);
  // Task number `number` of those of thread `thread`, if it has so many.
  auto run = [all](const auto& tasks, std::int64_t thread, std::int64_t number) {
    const std::int64_t task = tasks.tasks() * thread / all + number;
    if (task < tasks.tasks() * (thread + 1) / all) tasks.run(task);
  };
  parallel_for(all * each, [&](std::int64_t i) {
    const std::int64_t thread = i / each, number = i % each;
    if (number < products) run(multiplying, thread, number);
    else run(packing, thread, number - products);
  });
}

}  // namespace

Together together(const Product& p, std::int64_t threads) {
  const std::int64_t m = p.c.rows, n = p.c.cols, mr = product_loops().mr, nr = product_loops().nr;
  const Operands o(p);
  const std::int64_t fit = kRoomOfThread * threads / o.size();
  Together best{.steps = fit >= o.steps() ? o.steps() : fit / 2};
  if (best.steps == 0) return best;
  best.steps = ceil_div(o.steps(), ceil_div(o.steps(), best.steps));
  const double packing = product_loops().packing;
  const std::int64_t most = kTasksOfThread * threads, fewest = ceil_div(m, kMaxTileRows);
  for (std::int64_t down = fewest; down <= std::min(ceil_div(m, mr), std::max(fewest, most)); ++down)
    for (std::int64_t across = 1; across <= std::min(ceil_div(n, nr), std::max<std::int64_t>(1, most / down));
         ++across) {
      const std::int64_t rows = round_up(ceil_div(m, down), mr), cols = round_up(ceil_div(n, across), nr);
      const auto rounds = static_cast<double>(ceil_div(ceil_div(m, rows) * ceil_div(n, cols), threads));
      const double time =
          rounds * (static_cast<double>(rows * cols) + kReading * packing * static_cast<double>(rows + cols));
      if (best.rows == 0 || time < best.time) best.rows = rows, best.cols = cols, best.time = time;
    }
  const auto meetings = static_cast<double>(1 + ceil_div(o.steps(), best.steps));
  best.time += packing * (static_cast<double>(m + (p.b.packed ? 0 : n)) / static_cast<double>(threads) +
                          kMeeting * meetings / static_cast<double>(p.a.depth()));
  return best;
}

void multiply_together(const Product& p, const Together& how) {
  const Operands o(p);
  const std::int64_t groups = ceil_div(o.steps(), how.steps), size = how.steps * o.size();
  float* room = shared_scratch(std::min<std::int64_t>(groups, 2) * size).data();
  auto group = [&](std::int64_t i) -> Group {
    if (i < 0 || i == groups) return {0, 0, room};
    return {i * how.steps, std::min((i + 1) * how.steps, o.steps()), room + i % 2 * size};
  };
  for (std::int64_t i = 0; i <= groups; ++i) {
    const Group last = group(i - 1), next = group(i);
    const Multiplying multiplying(p, o, how, last);
    const Packing packing(o, next);
    // Calls with other numbers of steps are kinds of their own for virtual threads (core/virtual_threads.h).
    std::optional<ProfileScope> kind;
    if (const char* name = innermost_operation().name; name && virtual_threads() > 0)
      kind.emplace(name, 0, p.c.size() * p.a.depth() + how.steps * last.steps() + next.steps());
    run_tasks(multiplying, packing);
  }
}

}  // namespace dml::kernels
