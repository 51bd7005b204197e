// dml merge: base and adapter become one Hugging Face model directory, tensor by tensor.
#pragma once

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace dml {

/// `adapters`: DIR or DIR=WEIGHT, added up; empty: what the recipe trained. `output` must not exist as a non-empty
/// directory; it appears whole or not at all, after its logits have been compared with those of base and adapter.
void merge(const RecipeFile& file, std::vector<std::string> adapters, const std::string& output);

}  // namespace dml
