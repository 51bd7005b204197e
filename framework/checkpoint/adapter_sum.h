// Several adapters of one base as one: ΔW = Σ wᵢ sᵢ Bᵢ Aᵢ is the product of the A's one below the other and the B's
// side by side, each B with its weight and scale in it. Exact, and to the model an adapter like any other. Adapters that are
// no such product are added up as weights (pipeline/inference_model.cpp).
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

/// UserError for what has no sum: a tensor that is saved whole by two of them, adapted by another, or has a weight.
void refuse_conflicts(const std::vector<WeightedAdapter>& adapters);
/// Whether each adds a product BA to the base as it lies in its files: not DoRA, which scales the whole weight, and not
/// adapters that changed the base at their start.
bool are_products(const std::vector<WeightedAdapter>& adapters);
/// For products without conflicts.
Adapter sum_adapters(std::vector<WeightedAdapter> adapters, const ModelSpec& spec);

}  // namespace dml
