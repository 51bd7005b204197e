// Best-of-n sampling: of several sampled answers to a prompt, the one with the highest reward of a reward model.
#pragma once

#include <span>
#include <vector>

#include "assembly/reward_model.h"
#include "pipeline/infer.h"

namespace dml {

class BestOf {
 public:
  /// Both outlive it. UserError where the model judges steps instead of answers.
  BestOf(Assistant& assistant, RewardModel& judge, std::int64_t count);

  /// Of each prompt the best of `count` answers with its reward, of equal ones the first; `rows`: what the prompts are
  /// of. `first`: number of the first prompt among all that are asked; each answer draws its own random numbers.
  std::vector<Answer> answers(std::span<const Json> rows, std::span<const std::vector<Token>> prompts,
                              std::size_t first = 0);

 private:
  Answer best(const Json& row, std::vector<Answer> answers);

  Assistant& assistant_;
  RewardModel& judge_;
  std::size_t count_;
};

}  // namespace dml
