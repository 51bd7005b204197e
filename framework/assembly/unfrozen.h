// unfrozen_parameters: which of the base's tensors, or rows of them, full fine-tuning changes. Axolotl's rule: a
// regular expression matched at the start of the name; "[a:b]" after it names rows, either end may be left out.
#pragma once

#include <string>
#include <vector>

#include "model/build.h"

namespace dml {

/// Empty without patterns. UserError for a pattern that does not compile, and, when called, for rows that the tensor
/// does not have or that leave a gap.
decltype(Training::unfrozen) unfrozen_rule(const std::vector<std::string>& patterns);

}  // namespace dml
