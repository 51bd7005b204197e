// From a recipe's section about the optimizer to the optimizer, its schedule, and the rates of the parameters.
//
// Learning rates that differ by parameter are a factor on the schedule's rate that every parameter carries.
//
// LoRA+ (Hayou et al. 2024), grouped as PEFT groups it: B, and whatever has one dimension, learn loraplus_lr_ratio
// times as fast as A; adapters on the embedding at loraplus_lr_embedding. embedding_lr, embedding_lr_scale and
// lr_groups go by the parameter's name (optim/groups.h).
#pragma once

#include <memory>

#include "nn/parameter.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "recipe/recipe.h"

namespace dml {

/// `seed` is for random projections.
std::unique_ptr<Optimizer> make_optimizer(const Recipe& recipe);
ScheduleSettings learning_rate_settings(const OptimSection& optim, std::int64_t steps);
/// UserError when a name of lr_groups matches no trained parameter.
void set_learning_rates(ParameterStore& parameters, const OptimSection& optim, const AdapterSection& adapter);

}  // namespace dml
