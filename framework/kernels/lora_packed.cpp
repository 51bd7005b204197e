#include "kernels/lora_packed.h"

#include <algorithm>
#include <span>

#include "core/parallel.h"
#include "core/rounding.h"
#include "kernels/packed.h"
#include "kernels/processor.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kRowsOfB = 256;  // of b that a task scales, or whose gradient it adds

// Scratch memory for each entry, as large as its b: first for scale · b, then for the gradient of b, transposed.
class LikeB {
 public:
  LikeB(const TaskList<AdapterUpGradient>& adapters, Arena& scratch)
      : places_(scratch.take<std::int64_t>(adapters.size())) {
    std::int64_t size = 0;
    for (std::int64_t i = 0; i < adapters.size(); ++i) {
      if (!dry_run()) places_[static_cast<std::size_t>(i)] = size;
      size += adapters[i].b.size();
    }
    all_ = scratch.take<float>(size).data();
  }
  float* of(std::int64_t i) const { return all_ + places_[static_cast<std::size_t>(i)]; }

 private:
  std::span<std::int64_t> places_;
  float* all_;
};

}  // namespace

bool packs_adapters() { return precision() == DType::bf16; }

void lora_down_packed(const TaskList<AdapterDown>& adapters) {
  auto product = [&](std::int64_t i) {
    const AdapterDown d = adapters[i];
    return Product{{weight_of(d.x)}, {weight_of(d.a)}, d.down};
  };
  packed_products({adapters.size(), product});
}

void lora_up_backward_packed(const TaskList<AdapterUpGradient>& adapters, Arena& scratch) {
  Arena::Scope scope(scratch);
  const LikeB room(adapters, scratch);
  auto parts = [](const AdapterUpGradient& g) { return g.dy.rows > 0 ? ceil_div(g.b.rows, kRowsOfB) : 0; };
  parallel_tiles(adapters, parts, [&](const AdapterUpGradient& g, TileIndex at) {
    const std::int64_t first = at.i * kRowsOfB, rows = std::min(kRowsOfB, g.b.rows - first), rank = g.b.cols;
    loops().set_scaled(g.b.row(first), g.scale, room.of(at.entry) + first * rank, rows * rank);
  });
  auto gradient = [&](std::int64_t i) {
    const AdapterUpGradient g = adapters[i];
    const ConstMat scaled{room.of(i), g.b.rows, g.b.cols};
    return Product{{weight_of(g.dy)}, {weight_of(scaled), true}, g.ddown};
  };
  packed_products({adapters.size(), gradient});

  // The sums over tokens, as (R,N): a narrow second factor would be slower.
  auto sums = [](const AdapterUpGradient& g) { return !g.db.empty() && g.dy.rows > 0; };
  auto sum = [&](std::int64_t i) {
    const AdapterUpGradient g = adapters[i];
    if (!sums(g)) return Product{};
    return Product{{weight_of(g.down), true}, {weight_of(g.dy), true}, {room.of(i), g.b.cols, g.b.rows}};
  };
  packed_products({adapters.size(), sum});
  auto added = [&](const AdapterUpGradient& g) { return sums(g) ? ceil_div(g.b.rows, kRowsOfB) : 0; };
  parallel_tiles(adapters, added, [&](const AdapterUpGradient& g, TileIndex at) {
    const std::int64_t first = at.i * kRowsOfB, rows = std::min(kRowsOfB, g.b.rows - first), rank = g.b.cols;
    float* transposed = thread_scratch(rows * rank).data();
    loops().transpose(rank, rows, room.of(at.entry) + first, g.b.rows, g.scale, transposed, rank);
    loops().add_scaled(transposed, 1, g.db.row(first), rows * rank);
  });
}

void lora_down_backward_packed(const TaskList<AdapterDownGradient>& adapters) {
  auto gradient = [&](std::int64_t i) {
    const AdapterDownGradient g = adapters[i];
    if (g.dx.empty()) return Product{};
    return Product{{weight_of(g.ddown)}, {weight_of(g.a), true}, g.dx, Write::add};
  };
  packed_products({adapters.size(), gradient});
  auto sum = [&](std::int64_t i) {
    const AdapterDownGradient g = adapters[i];
    if (g.da.empty()) return Product{};
    return Product{{weight_of(g.ddown), true}, {weight_of(g.x), true}, g.da, Write::add};
  };
  packed_products({adapters.size(), sum});
}

}  // namespace dml::kernels
