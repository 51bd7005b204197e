#include "pipeline/evaluate.h"

#include <cmath>

#include "assembly/base_model.h"
#include "assembly/job.h"
#include "assembly/vocabulary.h"
#include "core/clock.h"
#include "core/error.h"
#include "data/loader.h"
#include "train/split_loss.h"
#include "train/token_loss.h"

namespace dml {
namespace {

Evaluation evaluate_one(std::string name, CausalLm& model, const Examples& examples, const Schedule& schedule,
                        Comm& comm) {
  auto start = Clock::now();
  Loader loader(examples, schedule);
  std::int64_t longest = schedule.longest();
  model.set_length(schedule.options().sequence_len / schedule.options().documents);
  TokenLoss objective;
  model.reserve(objective.measure(model, {longest, longest, schedule.most_documents()}, false));
  UnitHooks no_hooks;  // every rank holds the whole model
  const MicroBatchSum sum = split_loss({model, objective, loader, schedule, comm, no_hooks}).all;
  const double loss = sum.losses.mean();
  Evaluation e{std::move(name), loss, std::exp(loss), examples.size(), sum.tokens, sum.trained_tokens, 0};
  e.seconds = seconds_since(start);
  return e;
}

}  // namespace

std::vector<Evaluation> evaluate(const Recipe& recipe, Comm& comm, std::vector<std::string> adapters) {
  if (recipe.preference.rl != Rl::none)
    throw UserError("dml evaluate measures the loss of texts; a run with rl measures its own loss on the validation data, "
                    "as \"event\": \"eval\" in metrics.jsonl of output_dir");
  set_up_processor(recipe.train, comm);
  bool full = recipe.adapter.makes_model();
  if (full && !adapters.empty())
    throw UserError("--adapter: this recipe trains the whole model; name a recipe that trains an adapter");
  ModelSection section = recipe.model;
  if (full && file_exists(recipe.train.output_dir + "/config.json")) {
    section = ModelSection{};
    section.base_model = recipe.train.output_dir;
  }
  if (section.base_model.empty())
    throw UserError("{}: no trained model there yet; run dml train first", recipe.train.output_dir);
  if (!full && adapters.empty()) adapters = {recipe.train.output_dir};
  for (const std::string& directory : adapters)
    if (!file_exists(directory + "/adapter_config.json") && !file_exists(directory + "/adapters.safetensors"))
      throw UserError("{}: no adapter there; run dml train first, or name one with --adapter", directory);

  auto tokenizer = open_tokenizer(full ? section : recipe.model);
  Prepared prepared = prepare_on_ranks(recipe, *tokenizer, comm);
  Examples examples = prepared.validation();
  if (examples.empty()) throw UserError("there is no validation split: set val_set_size or test_datasets");
  Schedule schedule(examples.lengths(), eval_schedule(recipe.data, recipe.train, comm.size()));

  const BaseModel base = open_base_model(section, recipe.adapter);
  std::vector<Evaluation> rows;
  auto run = [&](std::string name, const std::string& vocabulary_of, const std::vector<std::string>& over) {
    BaseModel own = base;  // adapters may have vocabularies of their own
    if (!vocabulary_of.empty()) fit_vocabulary(own, {vocabulary_of});
    auto model = make_inference_model(own, section.frozen_storage, over);
    rows.push_back(evaluate_one(std::move(name), *model, examples, schedule, comm));
  };
  run(full ? section.base_model : "base", full ? "" : adapters[0], {});
  for (const std::string& directory : adapters) run(directory, directory, {directory});
  return rows;
}

}  // namespace dml
