// Copies of the weights of linear layers in the layout of packed products, for both directions. Without them, every
// product packs its weight itself; with them a weight is packed once: a frozen one in the whole run, a trained one in
// every step. Adapters are packed with the weights, in every step. Results have the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "core/arena.h"
#include "kernels/gemm.h"

namespace dml {

struct Linear;
struct LinearRows;
struct Pass;

class PackedWeights {
 public:
  /// Reserves memory for copies of the layers' weights. The layers must outlive the object. A weight is packed when a
  /// product first reads its copy.
  explicit PackedWeights(const std::vector<Linear*>& layers);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;
  /// The bytes of the copies.
  static std::size_t bytes(const std::vector<Linear*>& layers);

  /// Call when trained values have changed, before the first pass of a step.
  void begin_step();
  /// The copy for a product; packs it unless it is up to date. `adapted`: the product includes the layer's adapter.
  /// Empty if the layer has no copies, or if its copies are for products that differ in `adapted`.
  kernels::PackedCopy of(const Linear& layer, kernels::Direction direction, bool adapted);

 private:
  struct Copy {
    float* room = nullptr;
    bool weight = false, adapter = false;  // whether they are packed
  };
  std::vector<Linear*> layers_;
  std::vector<std::array<Copy, 2>> copies_;
  Arena memory_;
};

/// The copies for the products of several layers, found in advance: entries of a TaskList are read on all threads.
class PackedCopies {
 public:
  /// Takes scratch memory. All are empty if the pass has none. `masked`: in backward, gradients of adapters' inputs
  /// pass a dropout mask, so they are computed apart.
  PackedCopies(const kernels::TaskList<LinearRows>& layers, kernels::Direction direction, bool masked, Pass& pass);
  kernels::PackedCopy operator[](std::int64_t i) const {
    return copies_.empty() ? kernels::PackedCopy{} : copies_[static_cast<std::size_t>(i)];
  }

 private:
  std::span<const kernels::PackedCopy> copies_;
};

}  // namespace dml
