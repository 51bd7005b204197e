// Best-of-n sampling: generates several answers to a prompt and returns the one with the highest reward of a reward
// model.
#pragma once

#include <span>
#include <vector>

#include "assembly/reward_model.h"
#include "pipeline/infer.h"

namespace dml {

class BestOf {
 public:
  /// Both references outlive this object. UserError when the model judges steps instead of answers.
  BestOf(Assistant& assistant, RewardModel& judge, std::int64_t count);

  /// For each prompt, the best of `count` answers with its reward (the first of equals). `rows`: the rows of the
  /// prompts. `first`: index of the first prompt in the whole input; each answer has its own random numbers.
  std::vector<Answer> answers(std::span<const Json> rows, std::span<const std::vector<Token>> prompts,
                              std::size_t first = 0);

 private:
  Answer best(const Json& row, std::vector<Answer> answers);

  Assistant& assistant_;
  RewardModel& judge_;
  std::size_t count_;
};

}  // namespace dml
