#include "kernels/packed_together.h"

#include <algorithm>
#include <optional>

#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/packed_panels.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kRoomOfThread = 128 << 10;        // floats of packed operands for each thread
constexpr std::int64_t kMaxRows = 1036, kMaxCols = 256;  // of a tile, and at once of its columns
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

// Steps [first, last) into `room`, one after another.
void pack_steps(const Operands& o, std::int64_t first, std::int64_t last, float* room) {
  const std::int64_t in_a = o.blocks(Side::a), in_b = o.blocks(Side::b), all = (last - first) * (in_a + in_b);
  const std::int64_t some = std::clamp<std::int64_t>(all / (kTasksOfThread * threads()), 1, kMaxBlocks);
  const std::int64_t parts_a = ceil_div(in_a, some), parts = parts_a + ceil_div(in_b, some);
  parallel_for((last - first) * parts, [&](std::int64_t i) {
    const Step at = o.step(first + i / parts);
    const Side side = i % parts < parts_a ? Side::a : Side::b;
    const std::int64_t rows = some * block_of(side), row = (i % parts - (side == Side::a ? 0 : parts_a)) * rows;
    const Factor& f = o.factor(side);
    pack_rows(f, o.tail(side, at), side, row, std::min(rows, f.count() - row), at,
              room + i / parts * o.size() + o.place(side, at, row), thread_scratch(room_to_pack(rows, at.deep)).data());
  });
}

}  // namespace

Together together(const Product& p, std::int64_t threads) {
  const std::int64_t m = p.c.rows, n = p.c.cols, mr = product_loops().mr, nr = product_loops().nr;
  const Operands o(p);
  Together best{.steps = std::min(o.steps(), kRoomOfThread * threads / o.size())};
  if (best.steps == 0) return best;
  best.steps = ceil_div(o.steps(), ceil_div(o.steps(), best.steps));
  const double packing = product_loops().packing;
  const std::int64_t most = kTasksOfThread * threads, fewest = ceil_div(m, kMaxRows);
  for (std::int64_t down = fewest; down <= std::min(ceil_div(m, mr), std::max(fewest, most)); ++down)
    for (std::int64_t across = 1; across <= std::min(ceil_div(n, nr), std::max<std::int64_t>(1, most / down));
         ++across) {
      const std::int64_t rows = round_up(ceil_div(m, down), mr), cols = round_up(ceil_div(n, across), nr);
      const auto rounds = static_cast<double>(ceil_div(ceil_div(m, rows) * ceil_div(n, cols), threads));
      const double time =
          rounds * (static_cast<double>(rows * cols) + kReading * packing * static_cast<double>(rows + cols));
      if (best.rows == 0 || time < best.time) best.rows = rows, best.cols = cols, best.time = time;
    }
  const auto meetings = static_cast<double>(2 * ceil_div(o.steps(), best.steps));
  best.time += packing * (static_cast<double>(m + (p.b.packed ? 0 : n)) / static_cast<double>(threads) +
                          kMeeting * meetings / static_cast<double>(p.a.depth()));
  return best;
}

void multiply_together(const Product& p, const Together& how) {
  const Operands o(p);
  float* room = shared_scratch(how.steps * o.size()).data();
  const std::int64_t down = ceil_div(p.c.rows, how.rows), across = ceil_div(p.c.cols, how.cols);
  for (std::int64_t first = 0; first < o.steps(); first += how.steps) {
    const std::int64_t last = std::min(first + how.steps, o.steps());
    // Fewer steps than usual are a kind of call of their own for virtual threads (core/virtual_threads.h).
    const char* name = innermost_operation().name;
    std::optional<ProfileScope> fewer;
    if (last - first < how.steps && name) fewer.emplace(name, 0, p.c.size() * p.a.depth() + last - first);
    pack_steps(o, first, last, room);
    parallel_for(down * across, [&](std::int64_t i) {
      const std::int64_t row = i / across * how.rows, col = i % across * how.cols;
      const std::int64_t rows = std::min(how.rows, p.c.rows - row), end = std::min(col + how.cols, p.c.cols);
      for (std::int64_t k = first; k < last; ++k) {
        const Step at = o.step(k);
        const float* packed = room + (k - first) * o.size();
        for (std::int64_t c = col; c < end; c += kMaxCols)
          multiply_packed(p.b, o.tail(Side::b, at), at, rows, std::min(kMaxCols, end - c),
                          packed + o.place(Side::a, at, row), o.right(at, c, packed), p.c.row(row) + c, p.c.cols,
                          k > 0 ? Write::add : p.mode);
      }
    });
  }
}

}  // namespace dml::kernels
