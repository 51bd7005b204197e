// Makes a recipe's optimizer and learning-rate schedule, and sets learning rates per parameter.
//
// Each parameter has a factor on the schedule's learning rate.
//
// LoRA+ (Hayou et al. 2024), grouped as in PEFT: B matrices and one-dimensional parameters have loraplus_lr_ratio times
// the learning rate of A; adapters of the embedding have loraplus_lr_embedding. embedding_lr, embedding_lr_scale and
// lr_groups select parameters by name (optim/groups.h).
#pragma once

#include <memory>

#include "nn/parameter.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "recipe/recipe.h"

namespace dml {

std::unique_ptr<Optimizer> make_optimizer(const Recipe& recipe);
ScheduleSettings learning_rate_settings(const OptimSection& optim, std::int64_t steps);
/// Sets the factors. UserError when a name of lr_groups matches no trained parameter.
void set_learning_rates(ParameterStore& parameters, const OptimSection& optim, const AdapterSection& adapter);
/// Warnings of entries of optim_target_modules that match no trained matrix. UserError when none matches, so that the
/// optimizer would project no gradient.
std::vector<std::string> idle_optimizer_targets(const ParameterStore& parameters, const OptimSection& optim);

}  // namespace dml
