// Memory estimates for dml init; no weights are read (weightless_model.h).
#pragma once

#include "assembly/memory_plan.h"
#include "core/json.h"
#include "model/spec.h"
#include "pipeline/init_model.h"
#include "recipe/recipe.h"

namespace dml {

/// Memory of one rank with a micro-batch of micro_batch_size examples of sequence_len tokens. `model`: dtype and size
/// of the base's weights.
MemoryPlan plan_of(const Recipe& recipe, const ModelSpec& spec, const ModelFacts& model);

/// The spec that a `model_config:` describes.
ModelSpec spec_of_config(const Json& config);

}  // namespace dml
