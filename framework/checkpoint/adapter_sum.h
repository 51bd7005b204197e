// Several adapters of one base as one: ΔW = Σ wᵢ sᵢ Bᵢ Aᵢ is the product of the A's one below the other and the B's
// side by side, each B with its weight and scale in it. Exact, and to the model an adapter like any other.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/adapter_io.h"

namespace dml {

struct WeightedAdapter {
  std::string name;  // for messages
  Adapter adapter;
  double weight = 1;
};

/// UserError for what has no sum: DoRA, adapters that changed the base at their start, a tensor that two of them save
/// whole.
Adapter sum_adapters(std::vector<WeightedAdapter> adapters, const ModelSpec& spec);

}  // namespace dml
