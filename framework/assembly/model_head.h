// The head of each task: logits over the vocabulary, a reward per text, classes of steps.
#pragma once

#include <string>

#include "model/adapter_config.h"
#include "model/spec.h"
#include "recipe/recipe.h"

namespace dml {

/// The task that models with this head are for.
ModelTask task_of(HeadKind head);
/// Sets the head of the section's task, unless the model has it. UserError, prefixed with `source`, if the model
/// already has a different one.
void set_head(ModelSpec& spec, const ModelSection& section, const std::string& source);
/// UserError when a reward-model run starts from an adapter without the required head.
void require_head(const AdapterConfig& adapter, const ModelSpec& spec, const std::string& directory);

}  // namespace dml
