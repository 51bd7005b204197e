// Several adapters of one base as one: ΔW = Σ wᵢ sᵢ Bᵢ Aᵢ is the product of the A's one below the other and the B's
// side by side, each B with its weight and scale in it. Exact, and to the model an adapter like any other. Adapters
// that are no such product are added up as weights (assembly/inference_model.cpp).
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

/// UserError for what has no sum: a tensor, a bias or a row that two of them train, or one trains and another adapts,
/// or that has a weight; a tied model that one of them parts and another does not.
void refuse_conflicts(const std::vector<WeightedAdapter>& adapters, const ModelSpec& spec);
/// Whether each adds a product BA to the base as it lies in its files: not DoRA, which scales the whole weight, and not
/// adapters that changed the base at their start.
bool are_products(const std::vector<WeightedAdapter>& adapters);
/// For products without conflicts. Biases that were trained where they are (AdapterPlan::biases) are not in it.
Adapter sum_adapters(std::vector<WeightedAdapter> adapters, const ModelSpec& spec);

}  // namespace dml
