// The training loop: steps, evaluations, checkpoints, observers. The pipeline creates the objects that it works on.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/schedule.h"
#include "optim/schedule.h"
#include "train/base_watch.h"
#include "train/finite_state.h"
#include "train/metrics_log.h"
#include "train/observer.h"
#include "train/saver.h"
#include "train/step.h"

namespace dml {

/// The objects of a run; all of them outlive the trainer.
struct TrainerParts {
  const StepParts& step;
  const Schedule& schedule;
  Loader& loader;
  const LearningRate& learning_rate;
  std::vector<std::unique_ptr<Evaluator>>& evaluators;
  std::vector<std::unique_ptr<Observer>>& observers;  // called in this order
  Saver& saver;
  BaseWatch& base;
  const MetricsLog* history;  // on rank 0: the source of trainer_state.json's log history; null elsewhere
};

struct TrainerSettings {
  RunFacts facts;
  double max_grad_norm = 0;
  /// Whether an evaluation, or a checkpoint, is due after step s, counted from 0.
  std::function<bool(std::int64_t step)> evaluates, saves;
  bool save_last = true;  // save a checkpoint after the last step
  bool save_when_stopped =
      true;  // save what was computed when the base's files become unreadable, if a run can resume from it
  std::string resume_command;  // printed in messages
  /// The run ends after this many consecutive steps without a finite loss and gradient; each of them is skipped.
  std::int64_t nonfinite_patience = 1;
  /// Describes the rows of these micro-batches of step s, or of the whole step if none are given; for messages.
  std::function<std::string(std::int64_t step, std::span<const std::int64_t> micro_batches)> rows_of_step;
  std::int64_t micro_batch_size = 1;  // this and what follows are for trainer_state.json only
  double num_epochs = 1;
  std::int64_t eval_steps = 0, save_steps = 0;  // 0: not every so many steps
};

/// A key of TrainState::extra: whether the evaluation after its step was interrupted.
inline constexpr const char* kEvaluationOpen = "evaluation_open";

class Trainer {
 public:
  /// `state`: that of a new run or of the resumed checkpoint; model and strategy already hold its values.
  Trainer(TrainerParts parts, TrainerSettings settings, TrainState state);

  /// Runs all remaining steps. A collective. Error(diverged) when loss or gradients are not finite for too many steps,
  /// IoError when pages of the base cannot be read, UserError when its files were modified.
  RunEnd run();
  const TrainState& state() const { return state_; }
  /// Checks the base's files: UserError if they were modified such that the results are wrong; else a description of
  /// the modification, "" if there was none. A collective.
  std::string checked_base();

 private:
  class Watch;         // of a step
  class Interruption;  // of an evaluation
  /// Skips a step without a finite result; Error(diverged) if there were too many in a row.
  void skip_or_fail(const StepResult& result);
  /// Throws an Error(diverged) that names the damaged value. A collective.
  [[noreturn]] void fail_on_damage(const std::string& what);
  Action start();
  /// Repeats the evaluation during which the run was stopped, and saves what the checkpoint then lacked.
  Action repeat_evaluation();
  /// One step, then the evaluation and the checkpoint that are due after it.
  Action advance();
  StepMetrics step();
  using Evaluators = std::vector<Evaluator*>;
  Evaluators due(const EvaluationMoment& moment) const;
  /// An evaluation that is interrupted has no result, and is repeated by the resumed run.
  Action evaluate(const Evaluators& evaluators);
  bool evaluation_open() const { return state_.extra.contains(kEvaluationOpen); }
  void save();
  void begin_save();
  void finish_save() { report_saved(parts_.saver.finish()); }
  void report_saved(const std::string& path);
  /// Throws an IoError if pages of the base cannot be read, after saving what was computed before.
  void stop_if_base_is_lost();
  Action settled(const Action& mine);
  /// Combines the actions of all ranks. Ends the run on all of them when an observer of any has failed. A collective.
  Action agreed(const Action& mine);
  /// Calls all observers. An exception is kept until all ranks know of it, because an observer of rank 0 fails alone.
  Action notified(const std::function<Action(Observer&)>& call);
  /// Completes the checkpoint in progress, then rethrows the failure of this rank's observer.
  [[noreturn]] void end_after_failure();
  TrainerState trainer_state() const;
  std::string resume_hint() const;
  std::int64_t total() const { return parts_.schedule.steps(); }

  TrainerParts parts_;
  TrainerSettings settings_;
  TrainState state_;
  FiniteState finite_state_;
  std::exception_ptr failure_;                                 // of an observer
  std::int64_t saved_at_ = -1, updated_at_ = 0, refused_ = 0;  // refused_: number of consecutive steps skipped
};

}  // namespace dml
