#include "pipeline/training_run.h"

#include <cmath>
#include <filesystem>

#include "checkpoint/model_config.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/fault.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/memory_limits.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/version.h"
#include "dist/agreement.h"
#include "kernels/gemm.h"
#include "kernels/processor.h"
#include "pipeline/distribution.h"
#include "pipeline/evaluators.h"
#include "pipeline/job.h"
#include "pipeline/optimization.h"
#include "pipeline/preflight.h"
#include "pipeline/progress.h"
#include "pipeline/recipe_changes.h"
#include "pipeline/vocabulary.h"
#include "train/token_loss.h"

namespace dml {
namespace {

Schedule train_plan(const Recipe& recipe, const Examples& examples, std::int64_t ranks) {
  if (examples.empty())
    throw UserError("there is nothing to train on: every row went to validation or was dropped (see dml inspect)");
  return Schedule(examples.lengths(), train_schedule(recipe.data, recipe.train, ranks));
}

// What takes time is done after the data have been prepared.
void complete(BaseModel& base, const Recipe& recipe, std::int64_t tokens) {
  quantise_base(base, recipe.model, recipe.adapter);
  grow_vocabulary(base, tokens, recipe.model, recipe.adapter, recipe.train.seed);
}

// What cannot be trained is refused before hours go into preparing data for it.
const BaseModel& checked(const BaseModel& base, const Recipe& recipe, const Tokenizer& tokenizer) {
  Problems problems;
  for (auto& line : training_problems(recipe, base, tokenizer)) problems.add(line);
  problems.raise();
  return base;
}

// Trained values are made before anything can be planned in detail. `ranks` share those of full fine-tuning.
void refuse_hopeless(const BaseModel& base, const Recipe& recipe, const Comm& comm, int ranks) {
  const bool full = recipe.adapter.adapter == AdapterKind::none;
  if ((full && !recipe.adapter.unfrozen_parameters.empty()) || recipe.adapter.lora_model_dir) return;
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
  const auto values = static_cast<std::size_t>(parameters) * sizeof(float);
  const std::size_t need = gradients ? 2 * values : values / static_cast<std::size_t>(ranks), room = available_memory();
  if (room > 0 && need > room)
    throw UserError("{} of {} parameters needs {} for values{} alone, {} are available; {}",
                    full ? "full fine-tuning" : "an adapter", count_text(static_cast<double>(parameters)),
                    memory_text(need), gradients ? " and gradients" : "", memory_text(room),
                    full ? "adapter: lora or qlora needs a fraction of it" : "choose a smaller lora_r");
}

}  // namespace

TrainingRun::TrainingRun(const RecipeFile& file, Comm& comm)
    : file_(file),
      recipe_(file.recipe),
      comm_(comm),
      tokenizer_(open_tokenizer(recipe_.model)),
      base_(open_base_files(recipe_.model)),
      base_watch_(base_.files ? base_.files->paths() : std::vector<std::string>()),
      prepared_((checked(base_, recipe_, *tokenizer_), prepare_on_ranks(recipe_, *tokenizer_, comm))),
      train_examples_(prepared_.train()),
      validation_examples_(prepared_.validation()),
      schedule_(train_plan(recipe_, train_examples_, comm.size())),
      loader_(train_examples_, schedule_),
      calendar_(recipe_.train, schedule_),
      memory_{.process = memory_use().now},
      strategy_(make_strategy(recipe_, comm)),
      in_parts_(recipe_.adapter.adapter == AdapterKind::none && strategy_->shard_ranks() > 1),
      base_digest_((complete(base_, recipe_, tokens_with_rows(*tokenizer_, recipe_.adapter)),
                    refuse_hopeless(base_, recipe_, comm, strategy_->shard_ranks()), base_.examine(comm))),
      trainable_(make_trainable_model(base_, recipe_.model, recipe_.adapter, recipe_.train.seed, in_parts_)),
      model_(trainable_.model.get()),
      objective_(std::make_unique<TokenLoss>()),
      optimizer_(make_optimizer(recipe_.optim)),
      learning_rate_(learning_rate_settings(recipe_.optim, schedule_.steps())) {
  comm.set_timeout(recipe_.distribution.dist_timeout);
  fault_point("load", comm.rank());
  companions_.emplace(file, *tokenizer_, base_);
  if (!validation_examples_.empty()) {
    eval_schedule_.emplace(validation_examples_.lengths(), eval_schedule(recipe_.data, recipe_.train, comm.size()));
  }
  evaluators_ = make_evaluators(recipe_, prepared_, eval_schedule_ ? &*eval_schedule_ : nullptr);
  best_metric_ = dml::best_metric(file_, evaluators_);
  set_learning_rates(model_->parameters, recipe_.optim, recipe_.adapter);
  model_->noise = recipe_.train.neftune_noise_alpha;
  set_keeping(*model_, recipe_);
  if (const std::string dropout = config_dropout(base_.config); !dropout.empty())
    log_info("The model's config asks for dropout in training ({}); dml trains the base model without dropout",
             dropout);
  if (model_->parameters.trainable() == 0)
    throw UserError("nothing is trained: no parameter matches unfrozen_parameters");
  model_->set_length(std::max(recipe_.data.sequence_len, recipe_.data.eval_sequence_len.value_or(0)));

  if (recipe_.adapter.relora) {
    relora_.emplace(*model_, recipe_);
    base_.release();
  }

  plan_memory();
  if (comm_.size() == 1) plan_copies();  // several ranks: once they agree
  model_->reserve(memory_.activations);

  state_.seed = static_cast<std::uint64_t>(recipe_.train.seed);
  recipe_text_ = recipe_text();
  state_.recipe = digest_of(recipe_text_);
  state_.data = std::filesystem::path(prepared_.folder()).filename().string();
  state_.base = base_digest_;
  state_.numerics = fmt::format("{} {}, loops {}{}", version(), kernels::blas_description(), kernels::isa_name(),
                                kernels::precision() == kernels::Precision::bf16 ? ", bf16 products" : "");
}

std::string TrainingRun::recipe_text() const {
  // Where results go, how many threads compute them and when they are saved does not change them.
  RecipeFile plain = file_;
  TrainSection& t = plain.recipe.train;
  TrainSection fresh;
  t.bf16 = kernels::precision() == kernels::Precision::bf16 ? Bf16::on : Bf16::off;  // what auto came to
  t.output_dir = fresh.output_dir;
  t.threads = fresh.threads;
  t.resume_from_checkpoint = fresh.resume_from_checkpoint;
  t.auto_resume_from_checkpoints = fresh.auto_resume_from_checkpoints;
  t.save_steps = fresh.save_steps, t.saves_per_epoch = fresh.saves_per_epoch, t.save_strategy = fresh.save_strategy;
  t.save_total_limit = fresh.save_total_limit, t.save_first_step = fresh.save_first_step,
  t.save_on_signal = fresh.save_on_signal, t.save_in_background = fresh.save_in_background;
  t.max_time = fresh.max_time, t.logging_steps = fresh.logging_steps;
  // One step's micro-batches may be cut over ranks in any way.
  t.batch_size = t.micro_batches_per_step(comm_.size()) * t.micro_batch_size;
  t.gradient_accumulation_steps = fresh.gradient_accumulation_steps;
  plain.recipe.distribution = {};
  plain.recipe.adapter.quantised_cache_path = AdapterSection().quantised_cache_path;
  return resolved_yaml(plain);
}

void TrainingRun::agree() {
  // The digest in the checkpoint leaves out what a resumed run may change; ranks must agree on every key.
  std::vector<AgreementItem> items;
  for (auto& [key, value] : recipe_items(resolved_yaml(file_))) items.push_back({key, value});
  items.push_back({"the prepared data", digest_of(dump(prepared_.manifest()))});
  items.push_back({"the base model", state_.base});
  items.push_back({"the program", digest_of_file("/proc/self/exe")});
  items.push_back({"version and BLAS", state_.numerics});
  check_agreement(comm_, items);
  plan_copies();
}

// Between the passes of a step and its update: faults of the tests, requests, memory, and what forbids the update.
class TrainingRun::Watch : public StepWatcher {
 public:
  explicit Watch(TrainingRun& run) : run_(run) {}
  std::size_t memory() const { return memory_; }

  void pass_ended(std::int64_t done, std::int64_t total) override {
    if (run_.on_part_) run_.on_part_("training", done, total);
  }
  void exchange_begins() override { fault_point("exchange", run_.comm_.rank(), run_.state_.step); }
  bool accepts(const StepResult& result) override {
    // Above the requests: a rank whose base was cut short.
    constexpr auto kLost = static_cast<std::int64_t>(SignalRequest::stop) + 1;
    const auto mine = static_cast<std::int64_t>(run_.signals_.take());
    const std::int64_t agreed = run_.comm_.max(run_.base_watch_.lost().empty() ? mine : kLost);
    if (agreed == kLost) return run_.find_lost_base(), false;
    run_.request_ = static_cast<SignalRequest>(agreed);
    memory_ = static_cast<std::size_t>(run_.comm_.sum(static_cast<std::int64_t>(memory_use().now)));
    if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm))
      throw Error(ExitCode::diverged, fmt::format("step {}: loss is {}, gradient norm {}; the weights were left as they "
                                                  "were after step {} (try a lower learning_rate)",
                                                  run_.state_.step + 1, result.loss, result.grad_norm, run_.state_.step));
    return true;
  }

 private:
  TrainingRun& run_;
  std::size_t memory_ = 0;  // of all ranks
};

StepMetrics TrainingRun::step() {
  ProfileScope profiled("(between operations)");
  auto start = Clock::now();
  comm_.set_step(state_.step);
  fault_point("step", comm_.rank(), state_.step);
  if (relora_ && relora_->due(state_.step)) relora_->restart(state_.step, *strategy_, optimizer_->state(), comm_);
  const Schedule::Step plan = schedule_.step(state_.step);
  const double lr = learning_rate_.at(state_.step);
  Watch watch(*this);
  const StepResult result =
      run_step({*model_, *objective_, *strategy_, *optimizer_, comm_},
               {state_.step, plan.micro_batches, state_.seed, lr, recipe_.optim.max_grad_norm},
               [this](std::int64_t m) { return loader_.load(state_.step, m); }, watch);
  if (!lost_base_.empty()) return {};

  state_.step += 1;
  state_.epoch = plan.epochs_done;
  state_.pass = plan.epoch;
  state_.row = plan.first_micro_batch + plan.micro_batches;
  state_.tokens += result.sums.tokens;
  state_.learned_tokens += result.sums.trained_tokens;
  StepMetrics metrics{state_.step, state_.epoch, result.loss, result.grad_norm, lr};
  metrics.tokens = result.sums.tokens;
  metrics.learned_tokens = result.sums.trained_tokens;
  metrics.mem = watch.memory();
  metrics.step_s = seconds_since(start);
  metrics.tok_s = static_cast<double>(metrics.tokens) / metrics.step_s;
  if (auto limit = recipe_.train.loss_watchdog_threshold) {
    above_watchdog_ = metrics.loss > *limit ? above_watchdog_ + 1 : 0;
    if (above_watchdog_ >= recipe_.train.loss_watchdog_patience)
      throw Error(ExitCode::diverged,
                  fmt::format("step {}: loss {:.4f} is above loss_watchdog_threshold {} for {} steps", state_.step,
                              metrics.loss, *limit, above_watchdog_));
  }
  return metrics;
}

EvalMetrics TrainingRun::evaluate() {
  fault_point("evaluation", comm_.rank(), state_.step);
  auto each = [this](std::int64_t done, std::int64_t total) {
    if (on_part_) on_part_("evaluation", done, total);
  };
  EvaluationResult result;
  for (auto& evaluator : evaluators_)
    evaluator->evaluate({*model_, *objective_, *strategy_, comm_, state_.step, each}, result);
  find_lost_base();
  return {state_.step, state_.epoch, std::move(result.values)};
}

bool TrainingRun::find_lost_base() {
  for (const std::string& path : comm_.all_gather(base_watch_.lost()))
    if (lost_base_.empty()) lost_base_ = path;
  return !lost_base_.empty();
}

TrainingRun::BaseChange TrainingRun::base_change() {
  using Kind = MappedWatch::Kind;
  const bool whole_model = recipe_.adapter.adapter == AdapterKind::none && recipe_.adapter.unfrozen_parameters.empty();
  MappedWatch::Change mine = base_watch_.change();
  if (comm_.max(mine.kind == Kind::none ? 0 : 1) == 0) return {};
  if (comm_.max(mine.kind == Kind::changed ? 1 : 0) == 0 && comm_.max(mine.kind == Kind::touched ? 1 : 0) > 0) {
    // Another time alone says little. A copy of all trained values does not read the base any more, but a checkpoint names it.
    if (base_.examine(comm_) == base_digest_) {
      if (mine.kind == Kind::touched) base_watch_.accept();
      mine = base_watch_.change();
    } else if (mine.kind == Kind::touched) {
      mine.kind = Kind::changed;
    }
  }
  std::string text;
  if (mine.kind == Kind::changed || mine.kind == Kind::touched)
    text = mine.path + ": the base model was changed in place during this run";
  if (mine.kind == Kind::replaced)
    text = mine.path + ": the base model was replaced or removed during this run, which used the earlier file";
  const bool sound = comm_.max(mine.kind == Kind::changed || mine.kind == Kind::touched ? 1 : 0) == 0 || whole_model;
  for (const std::string& other : comm_.all_gather(text))
    if (!other.empty()) return {other, sound};
  return {};
}

std::vector<Sample> TrainingRun::samples() {
  if (!recipe_.generation.generate_samples) return {};
  std::vector<Sample> out;
  strategy_->gather_values();
  if (comm_.rank() == 0) out = generate_samples(*model_, *tokenizer_, validation_examples_, recipe_.generation, recipe_.templates);
  strategy_->release_values();
  comm_.barrier();
  return out;
}

bool TrainingRun::record_evaluation(const EvalMetrics& eval) {
  const double value = eval.value(best_metric_.name).value_or(NAN);
  const bool better = best_metric_.greater_is_better ? value > state_.best_metric.value_or(-INFINITY)
                                                     : value < state_.best_metric.value_or(INFINITY);
  if (better) {
    state_.best_metric = value;
    state_.best_step = eval.step;
    without_improvement_ = 0;
  } else {
    ++without_improvement_;
  }
  return out_of_patience();
}

bool TrainingRun::out_of_patience() const {
  return recipe_.train.early_stopping_patience && without_improvement_ >= *recipe_.train.early_stopping_patience;
}

}  // namespace dml
