#include "pipeline/evaluate.h"

#include <cmath>

#include "core/clock.h"
#include "core/error.h"
#include "data/loader.h"
#include "pipeline/base_model.h"
#include "pipeline/job.h"
#include "pipeline/split_loss.h"
#include "pipeline/vocabulary.h"

namespace dml {
namespace {

Evaluation evaluate_one(std::string name, CausalLm& model, const Examples& examples, const Schedule& schedule,
                        Comm& comm) {
  auto start = Clock::now();
  Loader loader(examples, schedule);
  std::int64_t longest = schedule.longest();
  model.set_length(schedule.options().sequence_len);
  model.reserve(model.measure({longest, longest - 1, schedule.most_examples()}, false));
  UnitHooks no_hooks;  // every rank holds the whole model
  SplitLoss split = split_loss(model, loader, schedule, comm, no_hooks);
  Evaluation e{std::move(name), split.mean(), std::exp(split.mean()), examples.size(), split.tokens, split.learned, 0};
  e.seconds = seconds_since(start);
  return e;
}

}  // namespace

std::vector<Evaluation> evaluate(const Recipe& recipe, Comm& comm, const std::optional<std::string>& adapter) {
  set_job_threads(recipe.train, comm);
  bool full = recipe.adapter.makes_model();
  ModelSection section = recipe.model;
  if (full && file_exists(recipe.train.output_dir + "/config.json")) {
    section = ModelSection{};
    section.base_model = recipe.train.output_dir;
  }
  if (section.base_model.empty())
    throw UserError("{}: no trained model there yet; run dml train first", recipe.train.output_dir);
  std::string directory = adapter.value_or(recipe.train.output_dir);
  if (!full && !file_exists(directory + "/adapter_config.json") && !file_exists(directory + "/adapters.safetensors"))
    throw UserError("{}: no adapter there; run dml train first, or name one with --adapter", directory);

  auto tokenizer = open_tokenizer(full ? section : recipe.model);
  Prepared prepared = prepare_on_ranks(recipe, *tokenizer, comm);
  Examples examples = prepared.validation();
  if (examples.empty()) throw UserError("there is no validation split: set val_set_size or test_datasets");
  Schedule schedule(examples.lengths(), eval_schedule(recipe.data, recipe.train, comm.size()));

  BaseModel base = open_base_model(section, recipe.adapter);
  std::vector<Evaluation> rows;
  auto run = [&](std::string name, const std::vector<std::string>& adapters) {
    auto model = make_inference_model(base, section.frozen_storage, adapters);
    rows.push_back(evaluate_one(std::move(name), *model, examples, schedule, comm));
  };
  if (!full) fit_vocabulary(base, {directory});
  run(full ? section.base_model : "base", {});
  if (!full) run(directory, {directory});
  return rows;
}

}  // namespace dml
