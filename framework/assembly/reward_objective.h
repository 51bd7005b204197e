// The objects of a recipe with rl: grpo: the objective, with the engine that samples, the rewards, and the reference.
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

/// All of it outlives the objective. UserError for rewards that cannot be computed.
struct RewardObjectiveParts {
  const Recipe& recipe;
  const Prepared& prepared;
  const Schedule& schedule;
  const Tokenizer& tokenizer;
  const BaseModel& base;
  DistributionStrategy& strategy;
  Comm& comm;
  std::function<void()> swap_reference;  // of trl.sync_ref_model
};
std::unique_ptr<Objective> make_reward_objective(const RewardObjectiveParts& parts);

}  // namespace dml
