// Learning rates that differ by parameter, as a factor on the schedule's rate that every parameter carries.
//
// LoRA+ (Hayou et al. 2024), grouped as PEFT groups it: B, and whatever has one dimension, learn loraplus_lr_ratio times as
// fast as A; adapters on the embedding at loraplus_lr_embedding. embedding_lr, embedding_lr_scale and lr_groups go by the
// parameter's name (optim/groups.h).
#pragma once

#include "nn/parameter.h"
#include "recipe/recipe.h"

namespace dml {

void set_learning_rates(ParameterStore& parameters, const OptimSection& optim, const AdapterSection& adapter);

}  // namespace dml
