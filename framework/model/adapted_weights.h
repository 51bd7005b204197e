// The frozen matrices that an adapter sits on, in memory of the model's own, so that the adapter can be merged into
// them during training: ReLoRA (Lialin et al. 2023), W ← W + s·BA, then A anew and B = 0. The sum of many merges has a
// higher rank than any of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/own_matrix.h"

namespace dml {

class AdaptedWeights {
 public:
  /// Copies the matrices; bfloat16 stays what it is unless `in_float32`. UserError for a quantised one: what its codes
  /// cannot hold would be lost at every merge.
  AdaptedWeights(CausalLm& model, bool in_float32);

  /// W becomes what weight and adapter compute together, rounded to its type.
  void merge();
  /// A random, B zero, DoRA's magnitudes the lengths of the rows: the model computes what it did. `number` of the
  /// restart, from 1 on: part of the address of the random numbers.
  void start_adapters(const std::string& init, std::uint64_t seed, std::int64_t number);
  /// As the model was loaded.
  void reset();

  const std::vector<OwnMatrix>& matrices() const { return matrices_; }

 private:
  CausalLm& model_;
  std::vector<OwnMatrix> matrices_;
};

}  // namespace dml
