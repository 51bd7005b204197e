#include "assembly/evaluators.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include "assembly/custom_evals.h"
#include "assembly/objective_choice.h"
#include "assembly/samples.h"
#include "core/closest.h"
#include "core/error.h"
#include "plugin/tables.h"
#include "train/validation_loss.h"

namespace dml {
namespace {

// The datasets that the validation split has examples of. Stored examples are in the order of the report's datasets.
ValidationLoss::Datasets datasets_of(const Prepared& prepared, const Examples& examples) {
  std::vector<std::int64_t> ends;
  for (const DatasetReport& d : prepared.report().datasets)
    ends.push_back((ends.empty() ? 0 : ends.back()) + d.examples);
  DML_CHECK(!ends.empty() && ends.back() == prepared.all().size());
  std::vector<std::size_t> of(static_cast<std::size_t>(examples.size()));
  for (std::size_t i = 0; i < of.size(); ++i)
    of[i] = static_cast<std::size_t>(std::ranges::upper_bound(ends, examples.stored(static_cast<std::int64_t>(i))) -
                                     ends.begin());
  ValidationLoss::Datasets out;
  std::vector<std::int32_t> number(ends.size(), -1);
  std::set<std::string> taken;
  for (const std::size_t d : std::set<std::size_t>(of.begin(), of.end())) {
    const std::string stem = std::filesystem::path(prepared.report().datasets[d].name).stem().string();
    std::string name = stem;
    for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}-{}", stem, n);
    number[d] = static_cast<std::int32_t>(out.names.size());
    out.names.push_back(std::move(name));
  }
  for (const std::size_t d : of) out.numbers.push_back(number[d]);
  return out;
}

bool is_named(const Metric& metric, const std::string& wanted) {
  return metric.name == wanted || metric.name == "eval_" + wanted;
}

// A name stands for one value of an evaluation, in metrics.jsonl and for metric_for_best_model.
void check_metric_names(const std::vector<std::unique_ptr<Evaluator>>& evaluators) {
  std::set<std::string> names{"event", "step", "epoch", "loss", "ppl"};  // those of the record itself
  for (auto& evaluator : evaluators)
    for (const Metric& metric : evaluator->metrics())
      if (!names.insert(metric.name).second)
        throw UserError(
            "evals: '{}' is the name of another value of the evaluation; choose another name for the entry "
            "of evals, or for the plug-in's metric",
            metric.name)
            .about("evals");
}

}  // namespace

Registry<EvalMetricKind>& eval_metrics() {
  static Registry<EvalMetricKind> registry("metric of evaluations", kEvalMetrics);
  return registry;
}

std::vector<std::unique_ptr<Evaluator>> make_evaluators(const EvaluatorParts& from) {
  const Recipe& recipe = from.recipe;
  std::vector<std::unique_ptr<Evaluator>> out;
  const Examples split = from.prepared.validation();
  if (from.schedule) {
    const ValidationLoss::Options options{recipe.train.eval_on_start, has_token_loss(recipe),
                                          loader_options(recipe, from.references, true), from.terms};
    out.push_back(std::make_unique<ValidationLoss>(split, *from.schedule, datasets_of(from.prepared, split), options));
    for (const std::string& name : recipe.train.eval_metrics) out.push_back(eval_metrics().at(name).make.make(from));
  }
  if (recipe.generation.generate_samples) out.push_back(std::make_unique<SampleTexts>(from.tokenizer, split, recipe));
  for (auto& own : custom_evaluators(recipe, from.tokenizer, from.spec)) out.push_back(std::move(own));
  for (auto& row : plugin_evaluators().rows())
    out.push_back(row.make(arguments_of(recipe.plugin.plugin_args, row.name)));
  check_metric_names(out);
  return out;
}

std::vector<Metric> metrics_of_split(const Recipe& recipe) {
  const auto objective = make_objective(recipe, {});
  auto out = ValidationLoss::metrics_of(has_token_loss(recipe), {}, objective->evaluated_terms());
  for (const std::string& name : recipe.train.eval_metrics) out.push_back({"eval_" + name});
  return out;
}

std::string fault_of_best_metric(const std::string& wanted, const std::vector<Metric>& measured) {
  std::vector<std::string> names;
  for (const Metric& metric : measured) {
    if (is_named(metric, wanted)) return "";
    names.push_back(metric.name);
  }
  std::string near = closest(wanted, names);
  if (near.empty()) near = closest("eval_" + wanted, names);
  return fmt::format("'metric_for_best_model' is '{}', which this run does not measure{}; it measures {}", wanted,
                     near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), fmt::join(names, ", "));
}

Metric best_metric(const RecipeFile& file, const std::vector<std::unique_ptr<Evaluator>>& evaluators) {
  const std::string& wanted = file.recipe.train.metric_for_best_model;
  std::vector<Metric> measured;
  for (auto& evaluator : evaluators) std::ranges::move(evaluator->metrics(), std::back_inserter(measured));
  if (measured.empty()) return {kEvalLoss};  // no metric is measured or needed
  for (Metric& metric : measured)
    if (is_named(metric, wanted)) {
      metric.greater_is_better = file.recipe.train.greater_is_better.value_or(metric.greater_is_better);
      return metric;
    }
  const auto place = file.origins.find("metric_for_best_model");
  if (place == file.origins.end() || place->second == "default") return measured[0];  // there is no validation split
  throw UserError("{}: {}", place->second, fault_of_best_metric(wanted, measured));
}

}  // namespace dml
