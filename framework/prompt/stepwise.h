// Answers whose steps are labeled one by one, for process reward models: {"prompt", "completions": [text], "labels":
// [boolean]}.
#pragma once

#include <memory>

#include "prompt/strategy.h"

namespace dml {

/// The strategy of type stepwise_supervised. UserError for any other type.
std::unique_ptr<PromptStrategy> make_stepwise(const PromptContext& context);
void check_stepwise_type(const DatasetType& type);

}  // namespace dml
