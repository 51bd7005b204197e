#include "pipeline/best_of.h"

#include <algorithm>
#include <utility>

#include "assembly/reward_sources.h"
#include "core/error.h"

namespace dml {

BestOf::BestOf(Assistant& assistant, RewardModel& judge, std::int64_t count)
    : assistant_(assistant), judge_(judge), count_(static_cast<std::size_t>(count)) {
  if (judge.judges_steps()) throw UserError("--reward: the model judges the steps of an answer, not an answer");
}

Answer BestOf::best(const Json& row, std::vector<Answer> answers) {
  std::vector<std::vector<Token>> texts;
  for (const Answer& a : answers) texts.push_back(reward_model_tokens(judge_, row, a.text));
  const std::vector<double> rewards = judge_.score(texts);
  const auto place = static_cast<std::size_t>(std::ranges::max_element(rewards) - rewards.begin());
  Answer out = std::move(answers[place]);
  out.reward = rewards[place];
  return out;
}

std::vector<Answer> BestOf::answers(std::span<const Json> rows, std::span<const std::vector<Token>> prompts,
                                    std::size_t first) {
  std::vector<Answer> out;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<std::vector<Token>> same(count_, prompts[i]);
    out.push_back(best(rows[i], assistant_.answers(same, (first + i) * count_)));
  }
  return out;
}

}  // namespace dml
