#include "train/validation_loss.h"

#include <fmt/format.h>

#include <utility>

#include "train/split_loss.h"

namespace dml {

ValidationLoss::ValidationLoss(const Examples& examples, const Schedule& schedule, Datasets datasets, bool on_start)
    : examples_(examples),
      schedule_(schedule),
      loader_(examples, schedule),
      datasets_(std::move(datasets)),
      on_start_(on_start) {
  if (datasets_.names.size() < 2) datasets_ = {};
}

std::vector<Metric> ValidationLoss::metrics() const {
  std::vector<Metric> out{{kEvalLoss}};
  for (const std::string& name : datasets_.names) out.push_back({fmt::format("eval_{}_loss", name)});
  return out;
}

void ValidationLoss::evaluate(const EvaluationContext& context, EvaluationResult& result) {
  const DocumentGroups groups{datasets_.names.size(),
                              [this](std::int64_t step, std::int64_t micro_batch, std::vector<std::int32_t>& of) {
                                of.clear();
                                for (const std::int32_t i : schedule_.examples(step, micro_batch))
                                  if (examples_.length(i) > 0)
                                    of.push_back(datasets_.numbers[static_cast<std::size_t>(i)]);
                              }};
  const SplitLoss split = split_loss(
      {context.model, context.objective, loader_, schedule_, context.comm, context.strategy, context.part}, groups);
  const std::vector<Metric> names = metrics();
  result.values.push_back({names[0].name, split.all.losses.mean()});
  for (std::size_t g = 0; g < split.groups.size(); ++g)
    result.values.push_back({names[g + 1].name, split.groups[g].loss / split.groups[g].denominator});
}

Evaluator::Memory ValidationLoss::memory(CausalLm& model, Objective& objective, int /*rank*/) {
  return {objective.measure(model, {schedule_.longest(), schedule_.longest(), schedule_.most_examples()}, false)};
}

}  // namespace dml
