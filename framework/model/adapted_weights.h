// Copies of the frozen matrices that have an adapter, so that the adapter can be merged into them during training:
// ReLoRA (Lialin et al. 2023), W ← W + s·BA, then A is drawn again and B = 0. The sum of many merges has a higher rank
// than each of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/owned_matrix.h"

namespace dml {

class AdaptedWeights {
 public:
  /// Copies the matrices, to float32 with `in_float32`, otherwise in their own dtype. Throws UserError for a quantized
  /// matrix, whose codes would lose most of a merge.
  AdaptedWeights(CausalLm& model, bool in_float32);

  /// Sets W to the merged values (weight_slots.h), rounded to its dtype.
  void merge();
  /// Draws A again and zeroes B; DoRA's magnitudes become the norms of the rows, so the model's function is unchanged.
  /// `number` of the restart (from 1): part of the address of the random numbers.
  void reinit_adapters(const std::string& init, std::uint64_t seed, std::int64_t number);
  /// Restores the values that the model was loaded with.
  void reset();

  const std::vector<OwnedMatrix>& matrices() const { return matrices_; }

 private:
  CausalLm& model_;
  std::vector<OwnedMatrix> matrices_;
};

}  // namespace dml
