// What a training run knows of itself before its first step: memory, time, the lines of its header.
#include <algorithm>

#include "core/clock.h"
#include "core/error.h"
#include "core/memory_limits.h"
#include "core/parallel.h"
#include "data/inspect.h"
#include "dist/frozen_shards.h"
#include "kernels/processor.h"
#include "pipeline/distribution.h"
#include "pipeline/estimate.h"
#include "pipeline/progress.h"
#include "pipeline/training_run.h"

namespace dml {
namespace {

std::string plan_text(const MemoryPlan& plan) {
  std::string text;
  for (auto& [name, bytes] : plan.rows())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, memory_text(bytes));
  return text;
}

// Examples, tokens and what was dropped, in one line.
std::string data_text(const DataReport& report, const Schedule& schedule) {
  const std::int64_t tokens = report.total(&DatasetReport::tokens), trained = report.total(&DatasetReport::learned);
  std::int64_t dropped = 0;
  for (auto& d : report.datasets)
    for (auto& [reason, rows] : d.dropped) dropped += rows;
  std::string text = fmt::format("{}, {} for validation, {} ({:.0f} % trained)",
                                 counted(report.train_examples, "training example", "training examples"),
                                 grouped(report.validation_examples), counted(tokens, "token", "tokens"),
                                 tokens > 0 ? 100 * static_cast<double>(trained) / static_cast<double>(tokens) : 0.0);
  if (dropped > 0) text += fmt::format(", {} dropped", counted(dropped, "row", "rows"));
  if (schedule.options().packing) text += fmt::format(", packing {:.0f} % full", 100 * schedule.fill());
  return text;
}

}  // namespace

void TrainingRun::plan_memory() {
  std::int64_t per_step = recipe_.train.micro_batches_per_step(comm_.size());
  strategy_->announce(model_->parameters);
  auto held = strategy_->memory(model_->parameters, optimizer_->state(), (per_step + comm_.size() - 1) / comm_.size());
  memory_.activations = objective_->measure(*model_, {schedule_.longest(), schedule_.longest(), schedule_.most_examples()}, true);
  for (auto& evaluator : evaluators_) {
    const Evaluator::Memory need = evaluator->memory(*model_, *objective_, comm_.rank());
    memory_.activations = std::max(memory_.activations, need.working);
    memory_.samples += need.beside;
  }
  if (recipe_.generation.generate_samples && comm_.rank() == 0) {
    auto [working, caches] = samples_memory(*model_, validation_examples_, recipe_.generation);
    memory_.activations = std::max(memory_.activations, working);
    memory_.samples += caches;
  }
  memory_.trained = static_cast<std::size_t>(held.values);
  FrozenMemory frozen = frozen_memory(base_, *model_, source_storage(recipe_.model, recipe_.adapter));
  memory_.frozen = frozen.mapped;
  if (relora_) memory_.frozen -= std::min(memory_.frozen, relora_->replaced());
  memory_.owned = frozen.copied;
  memory_.gradients = static_cast<std::size_t>(held.gradients);
  if (memory_.frozen > 0 && !relora_ && shards_frozen(recipe_.distribution, *strategy_, base_.bytes(), comm_)) {
    auto layers = frozen_of_layers(*model_);
    strategy_->shard_frozen(layers);
    memory_.frozen -= std::min(memory_.frozen, FrozenShards::memory(layers, 1));
    memory_.owned += FrozenShards::memory(layers, strategy_->shard_ranks());
  }
  memory_.optimizer = static_cast<std::size_t>(held.state);
  memory_.communication = static_cast<std::size_t>(held.communication);
  if (std::size_t room = available_memory(), need = still_needed(memory_.activations); room > 0 && need > room) {
    std::int64_t fitting = largest_micro_batch();
    throw UserError("not enough memory: this run needs {} more on this host and {} is available (per rank: {}); {}",
                    memory_text(need), memory_text(room), plan_text(memory_),
                    fitting > 0 ? fmt::format("use micro_batch_size: {} or less", fitting)
                                : "even micro_batch_size: 1 does not fit: reduce sequence_len, "
                                  "set gradient_checkpointing: true, or use adapter: qlora");
  }
}

void TrainingRun::plan_copies() {
  // Where memory is short, or counted out in addresses, training waits while a checkpoint is written. The last tenth of
  // what is available is not ours to take.
  memory_.snapshot = planned_copies(memory_.optimizer);
  const std::size_t room = available_memory(), copies = memory_.snapshot * static_cast<std::size_t>(comm_.local_size());
  const bool too_much = addresses_limited() || (room > 0 && still_needed(memory_.activations) + copies > room / 10 * 9);
  if (comm_.max(too_much ? 1 : 0) > 0) memory_.snapshot = 0;
}

std::size_t TrainingRun::still_needed(std::size_t activations) const {
  // The process is there already, and so are values that were copied or made. Mapped weights and data are there once.
  // Copies for checkpoints can be done without.
  const std::size_t shared = memory_.frozen + memory_.data;
  const std::size_t own = memory_.total() - shared - memory_.activations + activations - memory_.process -
                          memory_.owned - memory_.snapshot -
                          (in_parts_ ? 0 : static_cast<std::size_t>(model_->parameters.floats()) * sizeof(float));
  return shared + own * static_cast<std::size_t>(comm_.local_size());
}

std::size_t TrainingRun::checkpoint_bytes() const {
  std::int64_t floats =
      recipe_.adapter.adapter == AdapterKind::none ? base_.spec.parameters() : model_->parameters.trainable();
  StateLayout state = optimizer_->state();
  for (const Unit& unit : model_->parameters.units())
    for (const Parameter& p : unit.parameters)
      if (!recipe_.train.save_only_model) floats += state.floats(p.size(), p.size());
  return static_cast<std::size_t>(floats) * sizeof(float) + (relora_ ? relora_->bytes() : 0);
}

std::int64_t TrainingRun::largest_micro_batch() {
  const std::int64_t now = recipe_.train.micro_batch_size, longest = schedule_.longest(),
                     examples = schedule_.most_examples();
  // Reserved but not yet touched: what the system calls available holds it.
  const std::size_t room = available_memory();
  auto fits = [&](std::int64_t n) {
    std::int64_t tokens = (longest * n + now - 1) / now, documents = std::max<std::int64_t>(1, examples * n / now);
    return still_needed(objective_->measure(*model_, {tokens, tokens, documents}, true)) <= room;
  };
  std::int64_t good = 0, bad = 1 << 12;
  while (bad - good > 1) {
    std::int64_t middle = good == 0 && bad > 2 ? std::max<std::int64_t>(1, bad / 8) : (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

double TrainingRun::estimated_seconds() {
  constexpr double kTrial = 3;  // seconds
  RunSize run{.tokens = schedule_.tokens()};
  if (has_validation()) {
    const bool at_start = recipe_.train.eval_on_start;
    run.evaluations = calendar_.evaluations() + (at_start ? 1 : 0);
    run.evaluation_tokens = eval_schedule_->tokens();
  }
  TokenTimes times = estimate_pass(*model_, loader_.load(0, 0));
  // In a small model the optimizer update and overheads can take longer than forward and backward: time whole steps.
  if (times.training * static_cast<double>(run.tokens) < kTrial * static_cast<double>(total())) {
    start("");
    auto since = Clock::now();
    std::int64_t tokens = 0;
    try {
      tokens = step().tokens;  // warm-up: touches memory for the first time
      if (done() < total()) since = Clock::now(), tokens = 0;
      while (done() < total() && seconds_since(since) < kTrial) tokens += step().tokens;
    } catch (const Error& e) {  // training will report it
      if (e.code() != ExitCode::diverged) throw;
    }
    if (tokens > 0) times.training = seconds_since(since) / static_cast<double>(tokens);
  }
  if (run.evaluations > 0 && times.evaluation * static_cast<double>(run.evaluation_tokens) < kTrial) {
    auto since = Clock::now();
    evaluate();
    times.evaluation = seconds_since(since) / static_cast<double>(run.evaluation_tokens);
  }
  return run_seconds(times, run, comm_.size());
}

std::vector<std::string> TrainingRun::header() const {
  const ModelSpec& spec = base_.spec;
  auto share = [](std::int64_t part, std::int64_t whole) {
    return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  std::int64_t parameters = spec.parameters(), trained = model_->parameters.trainable();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("model      {} {}, {} layers × {}, {} parameters{}", spec.model_type,
                              base_.directory.empty() ? "from scratch" : base_.directory, spec.layers, spec.hidden,
                              count_text(static_cast<double>(parameters)),
                              base_.quantised ? fmt::format(", {}", scheme_name(base_.quantised->scheme()))
                              : base_.files   ? fmt::format(", {}", dtype_name(base_.dtype()))
                                              : ""));
  std::string how =
      recipe_.adapter.adapter == AdapterKind::none
          ? "full"
          : fmt::format("LoRA r={} alpha={:g}{}{}{}", trainable_.adapter->r, trainable_.adapter->alpha,
                        trainable_.adapter->use_rslora ? " rsLoRA" : "", trainable_.adapter->use_dora ? " DoRA" : "",
                        relora_ ? ", " + relora_->description() : "");
  lines.push_back(fmt::format("training   {}: {} parameters ({:.2f} %), {} at {:g}, {}", how, grouped(trained),
                              share(trained, parameters), recipe_.optim.optimizer, recipe_.optim.learning_rate,
                              recipe_.optim.lr_scheduler));
  lines.push_back("data       " + data_text(prepared_.report(), schedule_));
  auto counted = [](std::int64_t n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : std::string_view(what).ends_with("ch") ? "es" : "s");
  };
  std::string how_shared = strategy_name(recipe_, comm_);
  if (comm_.size() > 1 && recipe_.distribution.comm_dtype == Storage::bf16)
    how_shared +=
        fmt::format(", gradients sent in bf16: the bits are those of {} on {} ranks", how_shared, comm_.size());
  lines.push_back(fmt::format("schedule   {} of up to {}, {}, {}, {} × {} ({})", counted(schedule_.steps(), "step"),
                              counted(recipe_.train.micro_batches_per_step(comm_.size()), "micro-batch"),
                              counted(has_validation() ? calendar_.evaluations() : 0, "evaluation"),
                              counted(calendar_.checkpoints(), "checkpoint"), counted(comm_.size(), "rank"),
                              counted(threads(), "thread"), how_shared));
  if (kernels::precision() == kernels::Precision::bf16) lines.back() += ", bf16 products";
  lines.push_back(fmt::format("memory     {} per rank: {}", memory_text(memory_.total()), plan_text(memory_)));
  return lines;
}

std::vector<std::string> TrainingRun::details() const {
  std::vector<std::string> lines;
  for (auto& line : describe(prepared_, &schedule_))
    if (!line.starts_with("warning: ")) lines.push_back("data       " + line);
  return lines;
}

}  // namespace dml
