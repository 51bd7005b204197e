#include "pipeline/training_run.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include "checkpoint/finite.h"
#include "core/error.h"
#include "core/fault.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/version.h"
#include "data/inspect.h"
#include "dist/agreement.h"
#include "dist/frozen_shards.h"
#include "kernels/gemm.h"
#include "kernels/simd/loops.h"
#include "optim/clip.h"
#include "pipeline/distribution.h"
#include "pipeline/estimate.h"
#include "pipeline/job.h"
#include "pipeline/learning_rates.h"
#include "pipeline/micro_batch_sums.h"
#include "pipeline/model_output.h"
#include "pipeline/optimizer_state.h"
#include "pipeline/progress.h"
#include "pipeline/split_loss.h"
#include "pipeline/vocabulary.h"

namespace dml {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A micro-batch's own number since the start of the run, for its dropout masks.
std::uint64_t serial(std::int64_t step, std::int64_t micro_batch) {
  return (static_cast<std::uint64_t>(step) << 24) | static_cast<std::uint64_t>(micro_batch);
}

ScheduleSettings learning_rate_settings(const OptimSection& o, std::int64_t steps) {
  ScheduleSettings s;
  s.name = o.lr_scheduler;
  s.peak = o.learning_rate;
  s.steps = steps;
  s.warmup_steps = o.warmup_steps;
  s.warmup_ratio = o.warmup_ratio;
  s.quadratic_warmup = o.lr_quadratic_warmup;
  s.min_lr_ratio = o.cosine_min_lr_ratio;
  s.constant_lr_ratio = o.cosine_constant_lr_ratio;
  s.kwargs = o.lr_scheduler_kwargs;
  return s;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimSection& o) {
  OptimizerChoice choice = choose_optimizer(o.optimizer);
  if (!choice.notice.empty()) log_info("optimizer: {}", choice.notice);
  return optimizers().at(choice.name).make({o.weight_decay, o.adam_beta1, o.adam_beta2, o.adam_epsilon, o.optim_args});
}

Schedule train_plan(const Recipe& recipe, const Examples& examples, std::int64_t ranks) {
  if (examples.empty()) throw UserError("there is nothing to train on: every row went to validation or was dropped (see dml inspect)");
  return Schedule(examples.lengths(), train_schedule(recipe.data, recipe.train, ranks));
}

BaseModel open_grown_model(const Recipe& recipe, std::int64_t tokens) {
  BaseModel base = open_base_model(recipe.model, recipe.adapter);
  grow_vocabulary(base, tokens, recipe.model, recipe.adapter, recipe.train.seed);
  return base;
}

void check_output_directory(const Recipe& recipe) {
  std::string out = real_path(recipe.train.output_dir);
  for (const std::string& input : {recipe.model.base_model, recipe.adapter.lora_model_dir.value_or("")})
    if (!input.empty() && real_path(input) == out)
      throw UserError("output_dir: {} is also what training starts from; choose another directory", recipe.train.output_dir);
  if (file_exists(out) && !std::filesystem::is_directory(out)) throw UserError("output_dir: {} is a file", recipe.train.output_dir);
}

// Full fine-tuning makes the trained values before anything can be planned in detail.
void refuse_hopeless(const BaseModel& base, const Recipe& recipe, const Comm& comm, int shard_ranks) {
  if (recipe.adapter.adapter != AdapterKind::none || !recipe.adapter.unfrozen_parameters.empty()) return;
  auto values = static_cast<std::size_t>(base.spec.parameters()) * sizeof(float), room = available_memory();
  std::size_t need = comm.size() == 1 ? 2 * values : values / static_cast<std::size_t>(shard_ranks);
  if (room > 0 && need > room)
    throw Error(ExitCode::memory, fmt::format("full fine-tuning of {} parameters needs {} for values{} alone, {} are available; adapter: lora or qlora needs a fraction of it",
                                              count_text(static_cast<double>(base.spec.parameters())), memory_text(need), comm.size() == 1 ? " and gradients" : "", memory_text(room)));
}

std::string plan_text(const MemoryPlan& plan) {
  std::string text;
  for (auto& [name, bytes] : plan.rows()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, memory_text(bytes));
  return text;
}

// A base that is quantised was looked through when that was done.
void refuse_damage(const BaseModel& base, const Comm& comm) {
  if (base.files && !base.quantised)
    refuse_not_finite(*base.files, static_cast<std::size_t>(comm.local_rank()), static_cast<std::size_t>(comm.local_size()));
}

// "key: value" lines with what is indented below them.
std::vector<AgreementItem> lines_by_key(const std::string& yaml) {
  std::vector<AgreementItem> items;
  for (std::size_t at = 0; at < yaml.size();) {
    std::size_t end = std::min(yaml.find('\n', at), yaml.size());
    std::string line = yaml.substr(at, end - at);
    at = end + 1;
    if (line.empty() || line[0] == '#') continue;
    if (std::size_t colon = line.find(':'); line[0] != ' ' && line[0] != '-' && colon != line.npos)
      items.push_back({line.substr(0, colon), line.substr(std::min(line.size(), colon + 2))});
    else if (!items.empty())
      items.back().digest += line;
  }
  return items;
}

// The fault "flip": one bit of one trained value, as a failing memory would do.
void flip_a_bit(CausalLm& model) {
  for (Unit& unit : model.parameters.units())
    if (unit.value && unit.size > 0) {
      reinterpret_cast<unsigned char*>(unit.value)[1] ^= 1;
      return;
    }
}

}  // namespace

TrainingRun::TrainingRun(const RecipeFile& file, Comm& comm)
    : file_(file),
      recipe_(file.recipe),
      comm_(comm),
      tokenizer_((check_output_directory(recipe_), open_tokenizer(recipe_.model))),
      prepared_(prepare_on_ranks(recipe_, *tokenizer_, comm)),
      train_examples_(prepared_.train()),
      validation_examples_(prepared_.validation()),
      schedule_(train_plan(recipe_, train_examples_, comm.size())),
      loader_(train_examples_, schedule_),
      calendar_(recipe_.train, schedule_),
      memory_{.process = memory_use().now},
      base_(open_grown_model(recipe_, tokenizer_->size())),
      strategy_(make_strategy(recipe_.distribution, comm)),
      in_parts_(recipe_.adapter.adapter == AdapterKind::none && strategy_->shard_ranks() > 1),
      trainable_((refuse_hopeless(base_, recipe_, comm, strategy_->shard_ranks()), refuse_damage(base_, comm), make_trainable_model(base_, recipe_.model, recipe_.adapter, recipe_.train.seed, in_parts_))),
      model_(trainable_.model.get()),
      optimizer_(make_optimizer(recipe_.optim)),
      learning_rate_(learning_rate_settings(recipe_.optim, schedule_.steps())) {
  comm.set_timeout(recipe_.distribution.dist_timeout);
  fault_point("load", comm.rank());
  if (!validation_examples_.empty()) {
    eval_schedule_.emplace(validation_examples_.lengths(), eval_schedule(recipe_.data, recipe_.train, comm.size()));
    eval_loader_.emplace(validation_examples_, *eval_schedule_);
  }
  set_learning_rates(model_->parameters, recipe_.optim, recipe_.adapter);
  model_->noise = recipe_.train.neftune_noise_alpha;
  set_keeping(*model_, recipe_);
  if (model_->parameters.trainable() == 0) throw UserError("nothing is trained: no parameter matches unfrozen_parameters");
  model_->set_length(std::max(recipe_.data.sequence_len, recipe_.data.eval_sequence_len.value_or(0)));

  std::int64_t per_step = recipe_.train.micro_batches_per_step(comm.size());
  auto held = strategy_->memory(model_->parameters, optimizer_->state(), (per_step + comm.size() - 1) / comm.size());
  std::int64_t longest = schedule_.longest();
  memory_.activations = model_->measure({longest, longest - 1, schedule_.most_examples()}, true);
  if (eval_schedule_) {
    std::int64_t n = eval_schedule_->longest();
    memory_.activations = std::max(memory_.activations, model_->measure({n, n - 1, eval_schedule_->most_examples()}, false));
  }
  memory_.trained = static_cast<std::size_t>(held.values);
  FrozenMemory frozen = frozen_memory(base_, *model_, recipe_.model.frozen_storage);
  memory_.frozen = frozen.mapped;
  memory_.owned = frozen.copied;
  memory_.gradients = static_cast<std::size_t>(held.gradients);
  if (memory_.frozen > 0 && shards_frozen(recipe_.distribution, *strategy_, base_.bytes(), comm)) {
    auto layers = frozen_of_layers(*model_);
    strategy_->shard_frozen(layers);
    memory_.frozen -= std::min(memory_.frozen, FrozenShards::memory(layers, 1));
    memory_.owned += FrozenShards::memory(layers, strategy_->shard_ranks());
  }
  memory_.optimizer = static_cast<std::size_t>(held.state);
  memory_.communication = static_cast<std::size_t>(held.communication);
  if (std::size_t room = available_memory(), need = still_needed(memory_.activations); room > 0 && need > room) {
    std::int64_t fitting = largest_micro_batch();
    throw Error(ExitCode::memory, fmt::format("this run needs {} more memory on this rank, {} are available ({}): {}", memory_text(need), memory_text(room), plan_text(memory_),
                                              fitting > 0 ? fmt::format("micro_batch_size: {} fits", fitting)
                                                          : "not even micro_batch_size: 1 fits; smaller sequence_len, gradient_checkpointing: true, or adapter: qlora"));
  }
  model_->reserve(memory_.activations);

  state_.seed = static_cast<std::uint64_t>(recipe_.train.seed);
  state_.recipe = recipe_digest();
  state_.data = std::filesystem::path(prepared_.folder()).filename().string();
  state_.base = base_.digest(comm);
  state_.numerics = fmt::format("{} {}, loops {}", version(), kernels::blas_description(), kernels::isa_name());
}

std::size_t TrainingRun::still_needed(std::size_t activations) const {
  // The process is there already, and so are values that were copied or made.
  return memory_.total() - memory_.activations + activations - memory_.process - memory_.owned - (in_parts_ ? 0 : static_cast<std::size_t>(model_->parameters.floats()) * sizeof(float));
}

std::size_t TrainingRun::checkpoint_bytes() const {
  std::int64_t floats = recipe_.adapter.adapter == AdapterKind::none ? base_.spec.parameters() : model_->parameters.trainable();
  StateLayout state = optimizer_->state();
  for (const Unit& unit : model_->parameters.units())
    for (const Parameter& p : unit.parameters)
      if (!recipe_.train.save_only_model) floats += state.floats(p.size(), p.size());
  return static_cast<std::size_t>(floats) * sizeof(float);
}

std::int64_t TrainingRun::largest_micro_batch() {
  const std::int64_t now = recipe_.train.micro_batch_size, longest = schedule_.longest(), examples = schedule_.most_examples();
  // Reserved but not yet touched: what the system calls available holds it.
  const std::size_t room = available_memory();
  auto fits = [&](std::int64_t n) {
    std::int64_t tokens = (longest * n + now - 1) / now, documents = std::max<std::int64_t>(1, examples * n / now);
    return still_needed(model_->measure({tokens, tokens - 1, documents}, true)) <= room;
  };
  std::int64_t good = 0, bad = 1 << 12;
  while (bad - good > 1) {
    std::int64_t middle = good == 0 && bad > 2 ? std::max<std::int64_t>(1, bad / 8) : (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

double TrainingRun::estimated_seconds() {
  PackedBatch batch = loader_.load(0, 0);
  return estimate_pass(*model_, batch) / static_cast<double>(batch.size()) * static_cast<double>(schedule_.tokens()) / comm_.size();
}

std::string TrainingRun::recipe_digest() const {
  // Where results go, how many threads compute them and when they are saved does not change them.
  RecipeFile plain = file_;
  TrainSection& t = plain.recipe.train;
  TrainSection fresh;
  t.output_dir = fresh.output_dir;
  t.threads = fresh.threads;
  t.resume_from_checkpoint = fresh.resume_from_checkpoint;
  t.auto_resume_from_checkpoints = fresh.auto_resume_from_checkpoints;
  t.save_steps = fresh.save_steps, t.saves_per_epoch = fresh.saves_per_epoch, t.save_strategy = fresh.save_strategy;
  t.save_total_limit = fresh.save_total_limit, t.save_first_step = fresh.save_first_step, t.save_on_signal = fresh.save_on_signal;
  t.max_time = fresh.max_time, t.logging_steps = fresh.logging_steps;
  // One step's micro-batches may be cut over ranks in any way.
  t.batch_size = t.micro_batches_per_step(comm_.size()) * t.micro_batch_size;
  t.gradient_accumulation_steps = fresh.gradient_accumulation_steps;
  plain.recipe.distribution = {};
  plain.recipe.adapter.quantised_cache_path = AdapterSection().quantised_cache_path;
  return digest_of(resolved_yaml(plain));
}

void TrainingRun::agree() {
  // The digest in the checkpoint leaves out what a resumed run may change; ranks must agree on every key.
  std::vector<AgreementItem> items = lines_by_key(resolved_yaml(file_));
  items.push_back({"the prepared data", digest_of(dump(prepared_.manifest()))});
  items.push_back({"the base model", state_.base});
  items.push_back({"the program", digest_of_file("/proc/self/exe")});
  items.push_back({"version and BLAS", state_.numerics});
  check_agreement(comm_, items);
}

void TrainingRun::start(const std::string& from) {
  // Values come before the strategy spreads them over the ranks, optimizer state when its places are known.
  std::optional<TrainState> found;
  if (!from.empty()) found = load_values(from);
  strategy_->adopt(model_->parameters, optimizer_->state());
  if (!found) return;
  if (in_parts_) {
    load_shard_values(*model_, from, strategy_->shards());
    strategy_->publish();
  }
  read_optimizer_state(from, *strategy_, optimizer_->state());
  if (!strategy_->residuals().empty() && !read_residuals(from, *strategy_, strategy_name(recipe_.distribution, comm_.size()), comm_) && comm_.rank() == 0)
    log_warning("comm_dtype: {} was saved by another strategy or number of ranks: what rounding took away there is lost, and bits differ from a run that was not stopped", from);
  without_improvement_ = json_integer(found->extra, "without_improvement", 0, from);
  state_ = *found;
}

TrainState TrainingRun::load_values(const std::string& from) {
  TrainState found = load_train_state(from);
  auto same = [&](const std::string& a, const std::string& b, const char* what) {
    if (a != b) throw UserError("{}: was made with another {}; start anew with --resume none, or undo the change", from, what);
  };
  same(found.data, state_.data, "set of training data (the prepared folder differs)");
  same(found.base, state_.base, "base model");
  same(found.recipe, state_.recipe, "recipe (settings that change the result differ)");
  if (found.numerics != state_.numerics) log_warning("{}: was written by '{}', this is '{}': results may differ in the last bits", from, found.numerics, state_.numerics);
  if (!in_parts_) read_values(from);
  return found;
}

void TrainingRun::read_values(const std::string& checkpoint) {
  if (recipe_.adapter.adapter == AdapterKind::none)
    load_model_values(*model_, checkpoint);
  else
    load_adapter(*model_, read_adapter(checkpoint, model_->spec, base_.directory), checkpoint);
}

void TrainingRun::return_to_best() {
  if (!recipe_.train.load_best_model_at_end || state_.best_step < 0 || state_.best_step == state_.step) return;
  if (state_.best_step == 0) {
    log_warning("load_best_model_at_end: no evaluation was better than that of the start; the last weights are the result");
    return;
  }
  std::string best = fmt::format("{}/checkpoint-{}", recipe_.train.output_dir, state_.best_step);
  if (auto problem = manifest_problem(best); !problem.empty())
    throw UserError("load_best_model_at_end: the best evaluation was after step {}, but {}: {}", state_.best_step, best, problem);
  if (in_parts_) {
    load_shard_values(*model_, best, strategy_->shards());
  } else {
    strategy_->gather_values();
    read_values(best);
    for (Shard& s : strategy_->shards()) {
      const float* from = model_->parameters.units()[s.unit].value + s.parameter->offset + s.first;
      if (from != s.value.data()) std::copy_n(from, s.size, s.value.data());
    }
    strategy_->release_values();
  }
  strategy_->publish();
  log_info("the weights of step {}, whose validation loss of {:.4f} is the lowest, are the result", state_.best_step, *state_.best_metric);
}

StepMetrics TrainingRun::step() {
  ProfileScope profiled("(between operations)");
  auto start = Clock::now();
  comm_.set_step(state_.step);
  fault_point("step", comm_.rank(), state_.step);
  const Schedule::Step plan = schedule_.step(state_.step);
  MicroBatches mine = strategy_->share(plan.micro_batches);
  strategy_->begin_step(mine, plan.micro_batches);
  std::vector<MicroBatchSum> sums;
  for (std::int64_t i = 0, m = mine.first; i < mine.count; ++i, m += mine.stride) {
    strategy_->begin_micro_step(m);
    PackedBatch batch = loader_.load(state_.step, m);
    double loss = model_->train(batch, {state_.seed, serial(state_.step, m)}, *strategy_);
    sums.push_back({m, batch.size(), batch.learned(), loss});
  }
  fault_point("exchange", comm_.rank(), state_.step);
  std::span<Shard> shards = strategy_->finish_gradients();

  StepMetrics metrics;
  double loss = 0;
  for (const MicroBatchSum& m : gather_sums(comm_, std::move(sums))) {
    loss += m.loss;
    metrics.tokens += m.tokens;
    metrics.learned_tokens += m.learned;
  }
  wish_ = static_cast<Wish>(comm_.max(static_cast<std::int64_t>(recipe_.train.save_on_signal ? signals_.take() : Wish::none)));
  metrics.mem = static_cast<std::size_t>(comm_.sum(static_cast<std::int64_t>(memory_use().now)));
  double scale = metrics.learned_tokens > 0 ? 1 / static_cast<double>(metrics.learned_tokens) : 0;
  metrics.loss = loss * scale;
  metrics.grad_norm = gradient_norm(strategy_->squared_gradient_norm(), scale);
  metrics.lr = learning_rate_.at(state_.step);
  if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm))
    throw Error(ExitCode::diverged, fmt::format("step {}: loss is {}, gradient norm {}; the weights were left as they were after step {} (try a lower learning_rate)",
                                                state_.step + 1, metrics.loss, metrics.grad_norm, state_.step));
  if (metrics.learned_tokens > 0) {
    slices_ = optimizer_slices(shards);
    optimizer_->step(slices_, {metrics.lr, state_.step, scale * clip_factor(metrics.grad_norm, recipe_.optim.max_grad_norm)});
  }
  strategy_->publish();
  strategy_->end_step();

  state_.step += 1;
  state_.epoch = plan.epochs_done;
  state_.pass = plan.epoch;
  state_.row = plan.first_micro_batch + plan.micro_batches;
  state_.tokens += metrics.tokens;
  state_.learned_tokens += metrics.learned_tokens;
  metrics.step = state_.step;
  metrics.epoch = state_.epoch;
  metrics.step_s = seconds_since(start);
  metrics.tok_s = static_cast<double>(metrics.tokens) / metrics.step_s;
  if (auto limit = recipe_.train.loss_watchdog_threshold) {
    above_watchdog_ = metrics.loss > *limit ? above_watchdog_ + 1 : 0;
    if (above_watchdog_ >= recipe_.train.loss_watchdog_patience)
      throw Error(ExitCode::diverged, fmt::format("step {}: loss {:.4f} is above loss_watchdog_threshold {} for {} steps", state_.step, metrics.loss, *limit, above_watchdog_));
  }
  return metrics;
}

EvalMetrics TrainingRun::evaluate() {
  fault_point("evaluation", comm_.rank(), state_.step);
  return {state_.step, state_.epoch, split_loss(*model_, *eval_loader_, *eval_schedule_, comm_, *strategy_).mean()};
}

std::vector<Sample> TrainingRun::samples() {
  if (!recipe_.generation.generate_samples) return {};
  std::vector<Sample> out;
  strategy_->gather_values();
  if (comm_.rank() == 0) out = generate_samples(*model_, *tokenizer_, validation_examples_, recipe_.generation);
  strategy_->release_values();
  comm_.barrier();
  return out;
}

bool TrainingRun::gives_up(const EvalMetrics& eval) {
  if (!state_.best_metric || eval.loss < *state_.best_metric) {
    state_.best_metric = eval.loss;
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

std::string TrainingRun::save(const MetricsLog* log) {
  if (fault_point("save", comm_.rank(), state_.step)) flip_a_bit(*model_);
  check_replicas(comm_, model_->parameters);  // a checkpoint of ranks that have drifted apart helps nobody
  // Rank 0 owns the folder; the others add their shards to it.
  std::optional<CheckpointWriter> writer;
  if (comm_.rank() == 0) writer.emplace(recipe_.train.output_dir, state_.step);
  std::string folder = comm_.broadcast_text(writer ? writer->path() : "", 0);
  write_weights(folder, Dtype::f32);
  if (!recipe_.train.save_only_model) {
    write_optimizer_state(folder, *strategy_, optimizer_->state(), comm_);
    write_residuals(folder, *strategy_, strategy_name(recipe_.distribution, comm_.size()), comm_);
  }
  comm_.barrier();
  std::string path;
  if (comm_.rank() == 0) {
    state_.extra["without_improvement"] = without_improvement_;
    path = writer->commit(state_, trainer_state(*log));
    rotate_checkpoints(recipe_.train.output_dir, recipe_.train.save_total_limit, state_.best_step);
  }
  return comm_.broadcast_text(path, 0);
}

TrainerState TrainingRun::trainer_state(const MetricsLog& log) const {
  TrainerState t;
  t.step = state_.step;
  t.max_steps = schedule_.steps();
  t.batch_size = recipe_.train.micro_batch_size;
  t.tokens = state_.tokens;
  t.epoch = state_.epoch;
  t.epochs = recipe_.train.num_epochs;
  t.best_metric = state_.best_metric;
  t.best_step = state_.best_step;
  if (t.best_step >= 0) t.best_checkpoint = fmt::format("{}/checkpoint-{}", recipe_.train.output_dir, t.best_step);
  auto eval = log.evals().begin();
  for (const StepMetrics& m : log.steps()) {
    t.log_history.push_back({{"epoch", m.epoch}, {"step", m.step}, {"loss", m.loss}, {"grad_norm", m.grad_norm}, {"learning_rate", m.lr}});
    for (; eval != log.evals().end() && eval->step <= m.step; ++eval)
      t.log_history.push_back({{"epoch", eval->epoch}, {"step", eval->step}, {"eval_loss", eval->loss}});
  }
  return t;
}

void TrainingRun::save_tokenizer(const std::string& folder) const {
  save_tokenizer_files(tokenizer_directory(recipe_.model), tokenizer_overrides(recipe_.model), folder);
}

void TrainingRun::write_weights(const std::string& folder, Dtype dtype) {
  if (recipe_.adapter.adapter == AdapterKind::none) {
    strategy_->on_first_rank([&](const DistributionStrategy::Show& show) { write_model_directory(folder, base_, *model_, dtype, false, show); });
  } else {
    strategy_->gather_values();
    if (comm_.rank() == 0) write_adapter_directory(folder, *trainable_.adapter, *model_);
    strategy_->release_values();
  }
  if (comm_.rank() == 0) save_tokenizer(folder);
}

void TrainingRun::write_result() {
  std::optional<FilesInto> out;
  if (comm_.rank() == 0) out.emplace(recipe_.train.output_dir);
  write_weights(out ? out->path() : "", base_.dtype());
  if (out) out->commit();
  comm_.barrier();
}

std::vector<std::string> TrainingRun::header() const {
  const ModelSpec& spec = base_.spec;
  auto share = [](std::int64_t part, std::int64_t whole) { return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0; };
  std::int64_t parameters = spec.parameters(), trained = model_->parameters.trainable();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("model      {} {}, {} layers × {}, {} parameters{}", spec.model_type, base_.directory.empty() ? "from scratch" : base_.directory,
                              spec.layers, spec.hidden, count_text(static_cast<double>(parameters)), base_.quantised ? fmt::format(", {}", scheme_name(base_.quantised->scheme())) : base_.files ? fmt::format(", {}", dtype_name(base_.dtype())) : ""));
  std::string how = recipe_.adapter.adapter == AdapterKind::none ? "full" : fmt::format("{} r={} alpha={:g}{}{}", "LoRA", trainable_.adapter->r, trainable_.adapter->alpha,
                    trainable_.adapter->use_rslora ? " rsLoRA" : "", trainable_.adapter->use_dora ? " DoRA" : "");
  lines.push_back(fmt::format("training   {}: {} parameters ({:.2f} %), {} at {:g}, {}", how, grouped(trained), share(trained, parameters), recipe_.optim.optimizer,
                              recipe_.optim.learning_rate, recipe_.optim.lr_scheduler));
  for (auto& line : describe(prepared_, &schedule_)) lines.push_back("data       " + line);
  auto counted = [](std::int64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : std::string_view(what).ends_with("ch") ? "es" : "s"); };
  std::string how_shared = strategy_name(recipe_.distribution, comm_.size());
  if (comm_.size() > 1 && recipe_.distribution.comm_dtype == Storage::bf16)
    how_shared += fmt::format(", gradients sent in bf16: the bits are those of {} on {} ranks", how_shared, comm_.size());
  lines.push_back(fmt::format("schedule   {} of up to {}, {}, {}, {} × {} ({})", counted(schedule_.steps(), "step"),
                              counted(recipe_.train.micro_batches_per_step(comm_.size()), "micro-batch"),
                              counted(has_validation() ? calendar_.evaluations() : 0, "evaluation"), counted(calendar_.checkpoints(), "checkpoint"),
                              counted(comm_.size(), "rank"), counted(threads(), "thread"),
                              how_shared));
  lines.push_back(fmt::format("memory     {} per rank: {}", memory_text(memory_.total()), plan_text(memory_)));
  return lines;
}

}  // namespace dml
