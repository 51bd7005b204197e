#include "train/validation_loss.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "train/split_loss.h"

namespace dml {
namespace {

std::string loss_name(const std::string& dataset) { return fmt::format("eval_{}_loss", dataset); }

}  // namespace

ValidationLoss::ValidationLoss(const Examples& examples, const Schedule& schedule, Datasets datasets,
                               const Options& options)
    : examples_(examples),
      schedule_(schedule),
      loader_(examples, schedule, options.loading),
      datasets_(std::move(datasets)),
      on_start_(options.on_start),
      of_tokens_(options.of_tokens),
      terms_(options.terms.begin(), options.terms.end()) {
  if (datasets_.names.size() < 2) datasets_ = {};
}

std::vector<Metric> ValidationLoss::metrics() const { return metrics_of(of_tokens_, datasets_.names, terms_); }

std::vector<Metric> ValidationLoss::metrics_of(bool of_tokens, std::span<const std::string> datasets,
                                               std::span<const Metric> terms) {
  std::vector<Metric> out{{kEvalLoss}};
  if (of_tokens) out.push_back({kEvalPerplexity});
  for (const std::string& name : datasets) out.push_back({loss_name(name)});
  for (const Metric& term : terms) out.push_back({"eval_" + term.name, term.greater_is_better});
  return out;
}

void ValidationLoss::evaluate(const EvaluationContext& context, EvaluationResult& result) {
  const LossDivision division{datasets_.names.size(),
                              [this](std::int64_t step, std::int64_t micro_batch, std::vector<std::int32_t>& of) {
                                of.clear();
                                for (const std::int32_t i : schedule_.examples(step, micro_batch))
                                  if (examples_.length(i) > 0)
                                    of.insert(of.end(), static_cast<std::size_t>(examples_.documents(i)),
                                              datasets_.numbers[static_cast<std::size_t>(i)]);
                              }};
  const SplitLoss split = split_loss(
      {context.model, context.objective, loader_, schedule_, context.comm, context.strategy, context.part}, division);
  const double loss = split.all.losses.mean();
  result.values.push_back({kEvalLoss, loss});
  if (of_tokens_) result.values.push_back({kEvalPerplexity, std::exp(loss)});
  for (std::size_t g = 0; g < split.parts.size(); ++g)
    result.values.push_back({loss_name(datasets_.names[g]), split.parts[g].loss / split.parts[g].denominator});
  for (NamedValue& term : named_terms(terms_, split.all.losses, "eval_")) result.values.push_back(std::move(term));
}

Evaluator::Memory ValidationLoss::memory(CausalLm& model, Objective& objective, int /*rank*/) {
  return {objective.measure(model, {schedule_.longest(), schedule_.longest(), schedule_.most_documents()}, false)};
}

}  // namespace dml
