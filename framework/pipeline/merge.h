// dml merge: merges an adapter into its base, tensor by tensor, and writes a Hugging Face model directory or a GGUF
// file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace dml {

/// `adapters`: DIR or DIR=WEIGHT, added up; empty: the recipe's result. `output` must not exist as a non-empty
/// directory; it is written atomically, after its logits were compared with those of base and adapter. `gguf`: write
/// `output` as a GGUF file of this type ("": that of the base) instead.
void merge(const RecipeFile& file, std::vector<std::string> adapters, const std::string& output,
           const std::optional<std::string>& gguf = {});

}  // namespace dml
