// dml merge: base and adapter become one Hugging Face model directory, tensor by tensor.
#pragma once

#include <optional>
#include <string>

#include "recipe/recipe.h"

namespace dml {

/// `output` must not exist as a non-empty directory; it appears whole or not at all.
void merge(const Recipe& recipe, const std::optional<std::string>& adapter, const std::string& output);

}  // namespace dml
