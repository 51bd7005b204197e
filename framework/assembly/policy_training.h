// Makes the objective of a recipe with rl: grpo, with its sampler, rewards and reference.
#pragma once

#include <functional>
#include <memory>

#include "assembly/base_model.h"
#include "data/prepared.h"
#include "data/schedule.h"
#include "dist/strategy.h"
#include "tokenizer/tokenizer.h"
#include "train/objective.h"

namespace dml {

/// The objects that the objective uses; all of them outlive it. UserError for rewards that cannot be computed.
struct PolicyTrainingParts {
  const Recipe& recipe;
  const Prepared& prepared;
  const Schedule& schedule;
  const Tokenizer& tokenizer;
  const BaseModel& base;
  DistributionStrategy& strategy;
  Comm& comm;
  std::function<void()> swap_reference;  // for trl.sync_ref_model
};
std::unique_ptr<Objective> make_policy_objective(const PolicyTrainingParts& parts);

}  // namespace dml
