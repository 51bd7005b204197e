// The head that a task needs: logits over the vocabulary, a reward for a text, classes of steps.
#pragma once

#include <string>

#include "model/adapter_config.h"
#include "model/spec.h"
#include "recipe/recipe.h"

namespace dml {

/// Gives the model the head that the section's task needs, unless it has it. UserError, with `source` in front, where a
/// model already has another one.
void set_head(ModelSpec& spec, const ModelSection& section, const std::string& source);
/// UserError when a run for a reward model is to start from an adapter that does not have its head.
void require_head(const AdapterConfig& adapter, const ModelSpec& spec, const std::string& directory);

}  // namespace dml
