#include "pipeline/run_plan.h"

#include <algorithm>
#include <filesystem>

#include "assembly/distribution.h"
#include "assembly/evaluators.h"
#include "assembly/job.h"
#include "assembly/objective_choice.h"
#include "assembly/optimization.h"
#include "assembly/policy_training.h"
#include "assembly/vocabulary.h"
#include "checkpoint/model_config.h"
#include "core/error.h"
#include "core/fault.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/memory_limits.h"
#include "core/size_text.h"
#include "core/version.h"
#include "dist/agreement.h"
#include "kernels/gemm.h"
#include "kernels/processor.h"
#include "pipeline/input_digests.h"
#include "pipeline/preflight.h"
#include "pipeline/recipe_changes.h"
#include "pipeline/resume_rules.h"
#include "train/moving_reference.h"
#include "train/progress.h"

namespace dml {
namespace {

Schedule train_plan(const Recipe& recipe, const Examples& examples, std::int64_t ranks) {
  if (examples.empty())
    throw UserError("there is nothing to train on: every row went to validation or was dropped (see dml inspect)");
  const ScheduleOptions options = train_schedule(recipe.data, recipe.train, ranks, recipe.preference.sampling());
  if (recipe.preference.mismatches_answers() && options.micro_batch_size * options.micro_batches_per_step < 2)
    throw UserError(
        "kto pairs each prompt with another answer of the same step, so a step needs at least two answers; raise "
        "micro_batch_size or gradient_accumulation_steps")
        .about("micro_batch_size");
  return Schedule(examples.lengths(), options);
}

// Checks memory for trained values, which are created before the detailed plan. In full fine-tuning the strategy's
// ranks share them.
void check_room_for_values(const BaseModel& base, const Recipe& recipe, const Comm& comm,
                           const DistributionStrategy& strategy) {
  const bool full = recipe.adapter.adapter == AdapterKind::none;
  if ((full && !recipe.adapter.unfrozen_parameters.empty()) || recipe.adapter.starts_from_adapter()) return;
  std::int64_t parameters = base.spec.parameters();
  if (!full) {
    parameters = 0;
    AdapterPlan plan = plan_adapter(adapter_config(recipe.adapter, base.directory), base.spec, base.directory);
    for (const AdaptedModule& m : plan.modules) parameters += m.r * (m.module.rows + m.module.cols);
    for (auto* trained : {&plan.saved, &plan.biases})
      for (const WeightName& w : *trained) parameters += w.tensor_rows * w.cols;
    for (const TrainedRows& rows : plan.rows) parameters += std::ssize(rows.tokens) * rows.weight.cols;
  }
  const bool gradients = !full || comm.size() == 1;
  const auto count = static_cast<std::size_t>(parameters);
  const std::size_t values = count * (trained_values(recipe, strategy).bf16 ? sizeof(bf16) : sizeof(float)),
                    ranks = static_cast<std::size_t>(strategy.shard_ranks());
  const std::size_t need = gradients ? values + count * sizeof(float) : values / ranks, room = available_memory();
  if (room > 0 && need > room)
    throw UserError("{} of {} parameters needs {} for values{} alone, and {} is available; {}",
                    full ? "full fine-tuning" : "an adapter", count_text(static_cast<double>(parameters)),
                    size_text(need), gradients ? " and gradients" : "", size_text(room),
                    full ? "adapter: lora or qlora needs a fraction of it" : "choose a smaller lora_r");
}

// Slow steps, after the data are prepared: quantizes and extends the base and reads it once. Returns its digest.
std::string complete_base(BaseModel& base, const Recipe& recipe, const Tokenizer& tokenizer, Comm& comm,
                          const DistributionStrategy& strategy) {
  quantize_base(base, recipe.model, recipe.adapter);
  resize_vocabulary(base, tokens_with_rows(tokenizer, recipe.adapter), recipe.model, recipe.adapter, recipe.train.seed);
  check_room_for_values(base, recipe, comm, strategy);
  return base.examine(comm);
}

// Builds the model, prepared for the longest examples of the recipe.
TrainableModel make_model(const BaseModel& base, const Recipe& recipe, const DistributionStrategy& strategy) {
  TrainableModel out =
      make_trainable_model(base, recipe.model, recipe.adapter, recipe.train.seed, trained_values(recipe, strategy));
  CausalLm& model = *out.model;
  set_learning_rates(model.parameters, recipe.optim, recipe.adapter);
  for (const std::string& line : idle_optimizer_targets(model.parameters, recipe.optim)) log_warning("{}", line);
  model.noise = recipe.train.neftune_noise_alpha;
  set_recompute_policy(model, recipe);
  if (const std::string dropout = config_dropout(base.config); !dropout.empty())
    log_info("The model's config asks for dropout in training ({}); dml trains the base model without dropout",
             dropout);
  if (const std::string missing = class_missing_in_transformers(base.spec); !missing.empty())
    log_warning("transformers has no {}: dml score reads the result, transformers does not", missing);
  if (model.parameters.trainable() == 0)
    throw UserError("nothing is trained: no parameter matches unfrozen_parameters");
  model.set_length(std::max(recipe.data.sequence_len, recipe.data.eval_sequence_len.value_or(0)));
  return out;
}

// A resumed run has its weights from the checkpoint; those that it began with count where they are the reference of
// rewards. The name of a cached reference of preferences covers them (run_reference.cpp).
std::string digest_of_start_adapter(const Recipe& recipe) {
  const PreferenceSection& p = recipe.preference;
  if (!recipe.adapter.starts_from_adapter()) return "";
  return digest_of_adapter(*recipe.adapter.lora_model_dir, p.sampling() && p.beta() > 0 && !p.moves_reference());
}

void warn_of_idle_evals(const Recipe& recipe, std::int64_t steps) {
  const char* when = recipe.train.eval_on_start ? "measured only before the first step" : "never measured";
  for (const EvalEntry& e : recipe.evaluation.evals)
    if (e.every > steps)
      log_warning("evals: '{}' is {}: 'every' is {}, and the run has only {} steps", e.name, when, *e.every, steps);
}

}  // namespace

RunData::RunData(const Recipe& recipe, const Tokenizer& tokenizer, Comm& comm)
    : prepared(prepare_on_ranks(recipe, tokenizer, comm)),
      train(prepared.train()),
      validation(prepared.validation()),
      schedule(train_plan(recipe, train, comm.size())),
      eval_schedule(evaluation_schedule(recipe, validation, comm.size())),
      loader(train, schedule, loader_options(recipe, references, false)),
      calendar(recipe.train, schedule) {}

CausalLm::Shape RunData::mismatched(const Recipe& recipe) const {
  std::int64_t longest = loader.longest_mismatched();
  if (eval_schedule)
    longest = std::max(
        longest, Loader(validation, *eval_schedule, loader_options(recipe, references, true)).longest_mismatched());
  return {longest, longest, schedule.most_documents()};
}

RunPlan::RunPlan(const RecipeFile& recipe_file, Comm& ranks)
    : file(recipe_file),
      recipe(file.recipe),
      comm(ranks),
      tokenizer(open_tokenizer(recipe.model)),
      base(open_checked_base(recipe, *tokenizer)),
      base_files(base.files ? base.files->paths() : std::vector<std::string>()),
      data(recipe, *tokenizer, comm),
      memory{.process = memory_use().now},
      strategy(make_strategy(recipe, comm)),
      base_digest(complete_base(base, recipe, *tokenizer, comm, *strategy)),
      trainable(make_model(base, recipe, *strategy)),
      trained(make_trained_form(
          {recipe, base, trainable, *strategy, comm, rows_for(tokenizer->size(), recipe.model, recipe.train.seed)})),
      objective(recipe.preference.sampling()
                    ? make_policy_objective({recipe, data.prepared, data.schedule, *tokenizer, base, *strategy, comm,
                                             [this] { swap_reference(*optimizer, *strategy); }})
                    : make_objective(recipe, data.mismatched(recipe),
                                     {reference_source(recipe, *trainable.model),
                                      [this] { swap_reference(*optimizer, *strategy); }})),
      optimizer(make_optimizer(recipe)),
      learning_rate(learning_rate_settings(recipe.optim, data.schedule.steps())),
      evaluators(make_evaluators({recipe, data.prepared, data.eval_schedule ? &*data.eval_schedule : nullptr,
                                  *tokenizer, base.spec, data.references, objective->evaluated_terms()})),
      best_metric(dml::best_metric(file, evaluators)),
      companions(file, *tokenizer, base),
      files({{recipe, base, trainable, *strategy, comm}, *trained, *optimizer, *objective, companions}),
      step_parts{model(), *objective, *strategy, *optimizer, comm} {
  comm.set_timeout(recipe.distribution.dist_timeout);
  if (const std::string advice = optimizer->advice(); !advice.empty()) log_warning("{}", advice);
  warn_of_idle_evals(recipe, data.schedule.steps());
  fault_point("load", comm.rank());
  plan_memory();
  if (comm.size() == 1) plan_copies();  // after the ranks agree
  model().reserve(memory.activations);
  if (memory.packed > 0) model().packed = std::make_unique<PackedWeights>(model().layer_linears());

  recipe_text_ = recorded_recipe(file, comm.size());
  fresh_.seed = static_cast<std::uint64_t>(recipe.train.seed);
  fresh_.recipe = digest_of(recipe_text_);
  fresh_.data = std::filesystem::path(data.prepared.folder()).filename().string();
  fresh_.base = base_digest;
  fresh_.numerics = fmt::format("{} {}, loops {}{}", version(), kernels::blas_description(), kernels::isa_name(),
                                kernels::precision() == DType::bf16 ? ", bf16 products" : "");
  fresh_.extra["recipe"] = recipe_text_;
  fresh_.extra["steps"] = data.schedule.steps();
  const bool reads = comm.rank() == 0;  // for all
  for (const auto& [key, digest] : {std::pair{kRewardModels, reads ? digest_of_reward_models(recipe.preference) : ""},
                                    std::pair{kEvals, reads ? digest_of_evals(recipe.evaluation) : ""},
                                    std::pair{kStartAdapter, reads ? digest_of_start_adapter(recipe) : ""}})
    if (const std::string same = comm.broadcast_text(digest, 0); !same.empty()) fresh_.extra[key] = same;
}

StepPlan RunPlan::step_plan(std::int64_t step) const {
  return {step, data.schedule.step(step).micro_batches, static_cast<std::uint64_t>(recipe.train.seed),
          learning_rate.at(step), recipe.optim.max_grad_norm};
}

void RunPlan::agree() {
  // The digest in the checkpoint leaves out what a resumed run may change; ranks must agree on every key.
  std::vector<AgreementItem> items;
  for (auto& [key, value] : recipe_items(resolved_yaml(file))) items.push_back({key, value});
  items.push_back({"the prepared data", digest_of(dump(data.prepared.manifest()))});
  items.push_back({"the base model", fresh_.base});
  items.push_back({"the program", digest_of_file("/proc/self/exe")});
  items.push_back({"version and BLAS", fresh_.numerics});
  check_agreement(comm, items);
  plan_copies();
}

}  // namespace dml
