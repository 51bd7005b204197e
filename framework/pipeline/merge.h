// dml merge: base and adapter become one model, tensor by tensor: a Hugging Face model directory, or a GGUF file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace dml {

/// `adapters`: DIR or DIR=WEIGHT, added up; empty: what the recipe trained. `output` must not exist as a non-empty
/// directory; it is written atomically, after its logits have been compared with those of base and adapter. `gguf`:
/// `output` is a GGUF file of this type ("": that of the base) instead.
void merge(const RecipeFile& file, std::vector<std::string> adapters, const std::string& output,
           const std::optional<std::string>& gguf = {});

}  // namespace dml
