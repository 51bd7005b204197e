// Adds several adapters of one base up to one adapter: ΔW = Σ wᵢ sᵢ Bᵢ Aᵢ is the product of the A's stacked vertically
// and the B's horizontally, each B multiplied by its weight and scale. The sum is exact and used like any other
// adapter. Adapters that are not such products are added up as weights (assembly/inference_model.cpp).
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

/// UserError for adapters that cannot be added up: a tensor, bias or row that two of them train, or that one trains and
/// another adapts, or that has a weight other than 1; a tied model whose head one of them unties and another does not.
void refuse_conflicts(const std::vector<WeightedAdapter>& adapters, const ModelSpec& spec);
/// Whether each adapter adds a product BA to the base as stored: not DoRA, which scales the whole weight, and not
/// adapters that modify the base at initialization.
bool are_products(const std::vector<WeightedAdapter>& adapters);
/// The sum of products without conflicts, except biases that were trained in place (AdapterPlan::biases).
Adapter sum_adapters(std::vector<WeightedAdapter> adapters, const ModelSpec& spec);

}  // namespace dml
