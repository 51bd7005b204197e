// unfrozen_parameters: the tensors of the base, or rows of them, that full fine-tuning trains. As in Axolotl, a pattern
// is a regular expression matched at the start of the name; "[a:b]" after it selects rows, and either end may be
// omitted.
#pragma once

#include <string>
#include <vector>

#include "model/build.h"
#include "model/spec.h"

namespace dml {

/// Empty without patterns. UserError for a pattern that does not compile; calling the rule throws UserError for rows
/// that the tensor does not have or that leave a gap.
decltype(Training::unfrozen) unfrozen_rule(const std::vector<std::string>& patterns);
/// Warnings of patterns that match no tensor of the model.
std::vector<std::string> idle_unfrozen_patterns(const std::vector<std::string>& patterns, const ModelSpec& spec);

}  // namespace dml
