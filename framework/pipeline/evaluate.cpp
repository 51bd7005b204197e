#include "pipeline/evaluate.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "assembly/base_model.h"
#include "assembly/distribution.h"
#include "assembly/eval_metrics.h"
#include "assembly/job.h"
#include "assembly/objective_choice.h"
#include "core/clock.h"
#include "core/error.h"
#include "data/loader.h"
#include "pipeline/compared_models.h"
#include "pipeline/reference_pass.h"
#include "train/objective_rows.h"
#include "train/split_loss.h"

namespace dml {
namespace {

// The validation split in micro-batches of the recipe's objective.
struct Split {
  const Recipe& recipe;
  const Prepared& prepared;
  const Tokenizer& tokenizer;
  Examples examples;
  Schedule schedule;
  ReferenceScores references = {};

  // A loader, and an objective; reserves the model's memory for both.
  std::pair<Loader, std::unique_ptr<Objective>> ready(CausalLm& model) const {
    Loader loader(examples, schedule, loader_options(recipe, references, true));
    const std::int64_t longest = schedule.longest(), documents = schedule.most_documents(),
                       mismatched = loader.longest_mismatched();
    auto objective = make_objective(recipe, {mismatched, mismatched, documents});
    model.set_length(schedule.options().sequence_len / schedule.options().documents);
    model.reserve(objective->measure(model, {longest, longest, documents}, false));
    return {std::move(loader), std::move(objective)};
  }

  // Computes reference scores with the model that the run started from.
  void refer_to(CausalLm& model, Comm& comm) {
    auto [loader, objective] = ready(model);
    std::vector<double>* mismatched =
        loader_options(recipe, references, true).mismatched ? &references.mismatched_validation : nullptr;
    const std::vector<ReferencePart> parts{{examples, schedule, loader, mismatched}};
    forget(references, prepared.all().size(), parts);
    UnitHooks no_hooks;
    compute_references(parts, model, no_hooks, comm, references);
  }

  Evaluation evaluate(std::string name, CausalLm& model, Comm& comm) const {
    auto start = Clock::now();
    auto [loader, objective] = ready(model);
    UnitHooks no_hooks;  // every rank holds the whole model
    const MicroBatchSum sum = split_loss({model, *objective, loader, schedule, comm, no_hooks}).all;
    const double loss = sum.losses.mean();
    Evaluation e{std::move(name),
                 loss,
                 has_token_loss(recipe) ? std::exp(loss) : std::nan(""),
                 named_terms(objective->terms(), sum.losses),
                 examples.size(),
                 sum.tokens,
                 sum.trained_tokens,
                 0};
    add_metrics(e, model, *objective, comm);
    e.seconds = seconds_since(start);
    return e;
  }

  // Adds the recipe's eval_metrics.
  void add_metrics(Evaluation& e, CausalLm& model, Objective& objective, Comm& comm) const {
    if (recipe.train.eval_metrics.empty()) return;
    constexpr std::string_view kPrefix = "eval_";
    Recipe whole = recipe;
    whole.distribution = {};  // every rank holds the whole model
    const auto strategy = make_strategy(whole, comm);
    EvaluationResult result{{{kEvalLoss, e.loss}}, {}};
    for (const std::string& name : recipe.train.eval_metrics)
      eval_metrics()
          .at(name)
          .make.make({recipe, prepared, &schedule, tokenizer, model.spec, references, {}})
          ->evaluate({model, objective, *strategy, comm}, result);
    for (NamedValue& v : std::span(result.values).subspan(1)) {
      if (v.name.starts_with(kPrefix)) v.name.erase(0, kPrefix.size());
      e.values.push_back(std::move(v));
    }
  }
};

void check_measurable(const Recipe& recipe) {
  const auto& objective = recipe.train.objective;
  if (recipe.data.rows == RowKind::prompts || (objective && !objectives().at(*objective).make.of_tokens))
    throw UserError(
        "dml evaluate measures the loss of texts and of preferences; this run measures its own values on the "
        "validation data, as \"event\": \"eval\" in metrics.jsonl of output_dir");
}

}  // namespace

std::vector<Evaluation> evaluate(const Recipe& recipe, Comm& comm, const std::vector<std::string>& adapters,
                                 const std::optional<std::string>& base_model) {
  check_measurable(recipe);
  set_up_processor(recipe.train, comm);
  const std::vector<ComparedModel> models = compared_models(recipe, adapters, base_model);
  const auto tokenizer = open_tokenizer(models.back().section);
  Prepared prepared = prepare_on_ranks(recipe, *tokenizer, comm);
  Examples examples = prepared.validation();
  std::optional<Schedule> schedule = evaluation_schedule(recipe, examples, comm.size());
  if (!schedule) throw UserError("there is no validation split: set val_set_size, test_datasets or evals");
  Split split{recipe, prepared, *tokenizer, examples, std::move(*schedule)};
  if (recipe.preference.needs_reference()) {
    const bool continued = recipe.adapter.starts_from_adapter();
    BaseModel own =
        open_compared({"start", recipe.model, {}, continued ? *recipe.adapter.lora_model_dir : ""}, recipe, *tokenizer);
    const TrainedValues values{.bf16 = trains_bf16(recipe)};
    split.refer_to(*make_start_model(own, recipe.model, recipe.adapter, recipe.train.seed, values), comm);
  }

  std::vector<Evaluation> rows;
  for (const ComparedModel& m : models) {
    BaseModel own = open_compared(m, recipe, *tokenizer);
    auto model = make_inference_model(own, m.section.frozen_storage, m.adapters);
    rows.push_back(split.evaluate(m.name, *model, comm));
    if (std::isfinite(rows.back().loss)) continue;
    own.examine(comm);  // names a damaged tensor, if there is one
    throw Error(ExitCode::diverged, fmt::format("{}: the validation loss is not a finite number", rows.back().name));
  }
  return rows;
}

}  // namespace dml
