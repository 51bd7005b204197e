#include "nn/packed_weights.h"

#include "core/parallel.h"
#include "core/profile.h"
#include "nn/linear.h"

namespace dml {
namespace {

using kernels::Direction;

// The adapter that is packed with a layer's weight. The gradient of an input that passes a dropout mask is computed
// apart.
ConstMat adapter_of(const Linear& l, Direction direction) {
  if (!l.lora) return {};
  if (direction == Direction::forward) return l.lora->b.value();
  return l.lora->dropout > 0 ? Mat{} : l.lora->a.value();
}

std::int64_t floats_of(const Linear& l, Direction direction) {
  return kernels::packed_size(l.value(), adapter_of(l, direction), direction);
}

}  // namespace

PackedWeights::PackedWeights(const std::vector<Linear*>& layers)
    : layers_(layers), copies_(layers.size()), memory_(bytes(layers)) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i]->packed = static_cast<std::int64_t>(i);
    for (Direction d : {Direction::forward, Direction::backward})
      copies_[i][static_cast<std::size_t>(d)].room = memory_.take<float>(floats_of(*layers[i], d)).data();
  }
}

PackedWeights::~PackedWeights() {
  for (Linear* l : layers_) l->packed = -1;
}

std::size_t PackedWeights::bytes(const std::vector<Linear*>& layers) {
  Arena arena = Arena::measuring();
  for (const Linear* l : layers)
    for (Direction d : {Direction::forward, Direction::backward}) arena.take<float>(floats_of(*l, d));
  return arena.high_water();
}

void PackedWeights::begin_step() {
  for (std::size_t i = 0; i < layers_.size(); ++i)
    for (Copy& c : copies_[i]) {
      c.adapter = false;
      if (layers_[i]->weight) c.weight = false;
    }
}

kernels::PackedCopy PackedWeights::of(const Linear& layer, Direction direction, bool adapted) {
  if (layer.packed < 0) return {};
  const ConstMat adapter = adapter_of(layer, direction);
  if (adapted != (adapter.data != nullptr)) return {};
  Copy& copy = copies_[static_cast<std::size_t>(layer.packed)][static_cast<std::size_t>(direction)];
  const std::int64_t rank = direction == Direction::forward ? adapter.cols : adapter.rows;
  if (!copy.weight) {
    ProfileScope profiled("pack_weight");
    kernels::pack_weight(layer.value(), adapter, direction, copy.room);
  } else if (adapted && !copy.adapter) {
    ProfileScope profiled("pack_adapter");
    kernels::pack_adapter(layer.value(), adapter, direction, copy.room);
  }
  copy.weight = copy.adapter = true;
  return {copy.room, rank};
}

PackedCopies::PackedCopies(const kernels::TaskList<LinearRows>& layers, Direction direction, bool masked, Pass& pass) {
  const auto copies = pass.arena.take<kernels::PackedCopy>(layers.size());
  if (!pass.packed || dry_run()) return;
  for (std::int64_t i = 0; i < layers.size(); ++i) {
    const LinearRows r = layers[i];
    const bool adapted = r.linear->lora && !pass.base_only && !masked;
    copies[static_cast<std::size_t>(i)] =
        r.rows > 0 ? pass.packed->of(*r.linear, direction, adapted) : kernels::PackedCopy{};
  }
  copies_ = copies;
}

}  // namespace dml
