#include "train/trainer.h"

#include <algorithm>

#include "checkpoint/checkpoint_dir.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/fault.h"
#include "core/json.h"
#include "core/log.h"
#include "core/memory_limits.h"
#include "core/profile.h"
#include "dist/agreement.h"
#include "train/average.h"

namespace dml {
// Between the passes of a step and its update: fault injection for tests, and checks that may reject the update.
class Trainer::Watch : public StepWatcher {
 public:
  explicit Watch(Trainer& trainer) : trainer_(trainer) {}

  void pass_ended(std::int64_t done, std::int64_t total) override {
    for (auto& o : trainer_.parts_.observers) o->on_part("training", trainer_.state_.step + 1, done, total);
  }
  void exchange_begins() override { fault_point("exchange", comm().rank(), trainer_.state_.step); }
  bool accepts(const StepResult& result) override {
    BaseWatch& base = trainer_.parts_.base;
    const std::int64_t trouble = comm().max(base.lost_here() ? 2 : trainer_.finite_state_.finite() ? 0 : 1);
    if (trouble == 2) return base.find_lost(), false;
    if (trouble == 1) trainer_.fail_on_damage(fmt::format("step {} was not made", trainer_.state_.step + 1));
    if (!result.finite()) return trainer_.skip_or_fail(result), false;
    trainer_.refused_ = 0;
    trainer_.updated_at_ = trainer_.state_.step + 1;
    return true;
  }

 private:
  Comm& comm() { return trainer_.parts_.step.comm; }
  Trainer& trainer_;
};

// Asks the observers of all ranks during an evaluation whether it must end.
class Trainer::Interruption {
 public:
  explicit Interruption(Trainer& trainer) : trainer_(trainer) {}

  struct Cut {
    Action action;
  };
  /// Called on all ranks equally often. Throws a Cut on all if an observer of any requests a stop.
  void part_done() {
    if (++done_ < next_) return;
    Action mine;
    for (auto& o : trainer_.parts_.observers) mine |= o->interrupts();
    const Action all = trainer_.agreed(mine);
    if (all.stop) throw Cut{all};
    // Ranks ask together about twice a second, however long a part takes.
    const auto nanoseconds = static_cast<std::int64_t>(1e9 * seconds_since(asked_));
    const std::int64_t slowest = trainer_.parts_.step.comm.max(nanoseconds / (done_ - asked_at_));
    next_ = done_ + std::clamp<std::int64_t>(500'000'000 / std::max<std::int64_t>(1, slowest), 1, 1 << 20);
    asked_ = Clock::now(), asked_at_ = done_;
  }

 private:
  Trainer& trainer_;
  std::int64_t done_ = 0, next_ = 1, asked_at_ = 0;
  Clock::time_point asked_ = Clock::now();
};

void Trainer::skip_or_fail(const StepResult& result) {
  // The rounding errors that bfloat16 gradients carry to the next step are not finite either.
  const std::int64_t patience = parts_.step.strategy.residuals().empty() ? settings_.nonfinite_patience : 1;
  const std::int64_t step = state_.step + 1;
  if (++refused_ >= patience)
    throw Error(ExitCode::diverged,
                fmt::format("step {}: loss is {}, gradient norm {}{}; the weights were left as they were after step {} "
                            "(try a lower learning_rate)",
                            step, result.loss, result.grad_norm,
                            refused_ > 1 ? fmt::format(", for {} steps in a row", refused_) : "", updated_at_));
  if (parts_.step.comm.rank() == 0)
    log_warning(
        "step {}: loss is {}, gradient norm {}; the step is skipped and the weights stay as they are. Its rows: {}",
        step, result.loss, result.grad_norm,
        settings_.rows_of_step ? settings_.rows_of_step(state_.step, result.nonfinite) : "unknown");
}

void Trainer::fail_on_damage(const std::string& what) {
  std::string damage;
  for (const std::string& found : parts_.step.comm.all_gather(finite_state_.damage()))
    if (damage.empty()) damage = found;
  throw Error(ExitCode::diverged, fmt::format("{} is not a finite number (was memory or a file damaged?), so {}; {}",
                                              damage, what, resume_hint()));
}

Trainer::Trainer(TrainerParts parts, TrainerSettings settings, TrainState state)
    : parts_(parts),
      settings_(std::move(settings)),
      state_(std::move(state)),
      finite_state_(parts_.step.strategy, parts_.step.optimizer.state()) {
  if (settings_.facts.resumed_from.empty()) return;
  saved_at_ = state_.step;
  refused_ = json_integer(state_.extra, "skipped_steps", 0, settings_.facts.resumed_from);
  updated_at_ = state_.step - refused_;
  for (auto& o : parts_.observers) o->read_state(state_, settings_.facts.resumed_from);
}

RunEnd Trainer::run() {
  Action now = start();
  while (state_.step < total() && !now.stop && !now.finish) now = advance();
  if (saved_at_ != state_.step && !now.stop && settings_.save_last) save();
  finish_save();
  for (auto& o : parts_.observers) o->write_state(state_);
  const RunEnd end{now.stop     ? RunEnd::Reason::stopped
                   : now.finish ? RunEnd::Reason::finished_early
                                : RunEnd::Reason::complete,
                   state_.step, saved_at_};
  for (auto& o : parts_.observers) o->on_end(end);
  return end;
}

Action Trainer::start() {
  Action now = notified([&](Observer& o) { return o.on_start(settings_.facts); });
  if (settings_.facts.resumed_from.empty()) now |= evaluate(due({.step = 0}));
  else if (evaluation_open()) now |= repeat_evaluation();
  reset_profile();
  now = settled(now);
  now.save = false;  // there is nothing new to save
  return now;
}

Action Trainer::repeat_evaluation() {
  state_.extra.erase(kEvaluationOpen);
  const Action now = evaluate(due({state_.step, settings_.evaluates(state_.step - 1)}));
  if (!evaluation_open()) save();
  return now;
}

Action Trainer::advance() {
  StepMetrics metrics;
  try {
    metrics = step();
    stop_if_base_is_lost();
    report_saved(parts_.saver.poll());
  } catch (const Error& e) {
    // The checkpoint in progress is completed where all ranks come here: another error may be that of one of them.
    const bool alone = parts_.step.comm.size() == 1 && e.code() == ExitCode::user;
    if (alone || e.code() == ExitCode::diverged || dynamic_cast<const AgreedError*>(&e)) finish_save();
    throw;
  }
  Action now = notified([&](Observer& o) { return o.on_step(metrics); });
  const Evaluators measured = due({state_.step, settings_.evaluates(state_.step - 1)});
  now |= evaluate(measured);
  now = settled(now);
  if (now.finish && !now.stop && settings_.evaluates(total() - 1)) {  // an observer made this step the last
    Evaluators left = due({state_.step, true});
    std::erase_if(left, [&](Evaluator* e) { return std::ranges::find(measured, e) != measured.end(); });
    now |= settled(evaluate(left));
  }
  if (now.save || settings_.saves(state_.step - 1)) save();
  return now;
}

StepMetrics Trainer::step() {
  ProfileScope profiled("(between operations)");
  const auto start = Clock::now();
  const StepParts& step = parts_.step;
  step.comm.set_step(state_.step);
  fault_point("step", step.comm.rank(), state_.step);
  for (auto& o : parts_.observers) o->before_step(state_.step);
  const Schedule::Step plan = parts_.schedule.step(state_.step);
  double lr = parts_.learning_rate.at(state_.step);
  for (auto& o : parts_.observers) lr = o->learning_rate(lr);
  Watch watch(*this);
  const StepResult result = run_step(
      step, {state_.step, plan.micro_batches, state_.seed, lr, settings_.max_grad_norm},
      [this](std::int64_t m) { return parts_.loader.load(state_.step, m); }, watch);
  if (!parts_.base.lost().empty()) return {};

  state_.step += 1;
  state_.epoch = plan.epochs_done;
  state_.pass = plan.epoch;
  state_.row = plan.first_micro_batch + plan.micro_batches;
  state_.tokens += result.sums.tokens;
  state_.trained_tokens += result.sums.trained_tokens;
  StepMetrics metrics{state_.step, state_.epoch, result.loss, result.grad_norm, lr};
  metrics.tokens = result.sums.tokens;
  metrics.trained_tokens = result.sums.trained_tokens;
  metrics.mem = static_cast<std::size_t>(step.comm.sum(static_cast<std::int64_t>(memory_use().now)));
  metrics.values = named_terms(step.objective.terms(), result.sums.losses);
  for (NamedValue& value : step.objective.batch_values()) metrics.values.push_back(std::move(value));
  metrics.step_s = seconds_since(start);
  metrics.time = unix_time();
  metrics.tok_s = static_cast<double>(metrics.tokens) / metrics.step_s;
  return metrics;
}

Trainer::Evaluators Trainer::due(const EvaluationMoment& moment) const {
  Evaluators out;
  for (auto& evaluator : parts_.evaluators)
    if (evaluator->due(moment)) out.push_back(evaluator.get());
  return out;
}

Action Trainer::evaluate(const Evaluators& evaluators) {
  EvaluationResult result;
  if (evaluators.empty()) return {};
  Interruption interruption(*this);
  const auto part = [&](std::int64_t done, std::int64_t total) {
    for (auto& o : parts_.observers) o->on_part("evaluation", state_.step + 1, done, total);
    if (done < total) interruption.part_done();
  };
  Action now;
  switch_to_average(parts_.step.optimizer, parts_.step.strategy);
  state_.extra[kEvaluationOpen] = true;
  try {
    for (Evaluator* evaluator : evaluators) {
      fault_point("evaluation", parts_.step.comm.rank(), state_.step);
      evaluator->evaluate(
          {parts_.step.model, parts_.step.objective, parts_.step.strategy, parts_.step.comm, state_.step, part},
          result);
    }
  } catch (const Interruption::Cut& cut) {
    now = cut.action;
  }
  switch_to_training_point(parts_.step.optimizer, parts_.step.strategy);
  parts_.base.find_lost();
  stop_if_base_is_lost();
  if (now.stop) {
    if (parts_.step.comm.rank() == 0) log_info("The evaluation after step {} was interrupted", state_.step);
    return now;
  }
  state_.extra.erase(kEvaluationOpen);
  return notified([&](Observer& o) { return o.on_eval({state_.step, state_.epoch, result.values}, result.samples); });
}

// What all ranks do now. A run that is complete does not stop any more.
Action Trainer::settled(const Action& mine) {
  Action now = agreed(mine);
  now.stop = now.stop && (state_.step < total() || evaluation_open());
  return now;
}

Action Trainer::agreed(const Action& mine) {
  constexpr int kBits = 15;  // each field holds a count of ranks
  const std::int64_t sum =
      parts_.step.comm.sum(std::int64_t{mine.save} | std::int64_t{mine.finish} << kBits |
                           std::int64_t{mine.stop} << 2 * kBits | std::int64_t{failure_ != nullptr} << 3 * kBits);
  const auto any = [&](int field) { return (sum >> field * kBits & ((1 << kBits) - 1)) != 0; };
  if (any(3)) end_after_failure();
  return {any(0), any(1), any(2)};
}

Action Trainer::notified(const std::function<Action(Observer&)>& call) {
  Action all;
  if (failure_) return all;
  try {
    for (auto& o : parts_.observers) all |= call(*o);
  } catch (...) {
    failure_ = std::current_exception();
  }
  return all;
}

void Trainer::end_after_failure() {
  finish_save();
  if (failure_) std::rethrow_exception(failure_);
  throw Error(ExitCode::distributed, "an observer of rank 0 failed");
}

void Trainer::report_saved(const std::string& path) {
  if (path.empty()) return;
  for (auto& o : parts_.observers) o->on_save({path, saved_at_});
}

void Trainer::begin_save() {
  finish_save();
  if (parts_.step.comm.any(!finite_state_.finite()))
    fail_on_damage(fmt::format("no checkpoint was written after step {}", state_.step));
  for (auto& o : parts_.observers) o->before_save();
  state_.extra["skipped_steps"] = refused_;
  for (auto& o : parts_.observers) o->write_state(state_);
  parts_.saver.begin(state_, trainer_state());
  saved_at_ = state_.step;
  if (!parts_.saver.in_background()) finish_save();
}

void Trainer::save() {
  // The base was changed under the run. What it computed is only saved if it is right.
  const BaseWatch::Change change = parts_.base.change();
  if (change.text.empty() || change.sound) begin_save();
  if (change.text.empty()) return;
  finish_save();
  throw UserError("{}. Restore the file, {}", change.text, resume_hint());
}

std::string Trainer::checked_base() {
  const BaseWatch::Change change = parts_.base.change();
  if (!change.text.empty() && !change.sound) throw UserError("{}. Restore the file, {}", change.text, resume_hint());
  return change.text;
}

void Trainer::stop_if_base_is_lost() {
  if (parts_.base.lost().empty()) return;
  finish_save();
  // With bfloat16 gradients the discarded step has changed the carried rounding errors.
  const bool whole = state_.step > 0 && parts_.step.strategy.residuals().empty();
  if (saved_at_ != state_.step && settings_.save_when_stopped && whole) {
    begin_save();
    finish_save();
  }
  throw IoError(fmt::format("{}: the file was cut short while it was in use, or its disk failed. Restore it, {}",
                            parts_.base.lost(), resume_hint()));
}

std::string Trainer::resume_hint() const {
  return saved_at_ < 0 ? std::string("nothing was saved")
                       : fmt::format("then resume from step {}: {}", saved_at_, settings_.resume_command);
}

TrainerState Trainer::trainer_state() const {
  TrainerState t;
  if (!parts_.history) return t;
  t.step = state_.step;
  t.max_steps = total();
  t.batch_size = settings_.micro_batch_size;
  t.tokens = state_.tokens;
  t.epoch = state_.epoch;
  t.epochs = settings_.num_epochs;
  t.eval_steps = settings_.eval_steps;
  t.save_steps = settings_.save_steps;
  t.best_metric = state_.best_metric;
  t.best_step = state_.best_step;
  if (t.best_step >= 0) t.best_checkpoint = best_checkpoint_of(state_, settings_.facts.output_dir);
  t.log_history = parts_.history->log_history();
  return t;
}

}  // namespace dml
