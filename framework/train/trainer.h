// The loop of a run: steps, evaluations, checkpoints, and those that watch. What it works on is made before (pipeline).
#pragma once

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

/// All of it outlives the trainer.
struct TrainerParts {
  const StepParts& step;
  const Schedule& schedule;
  Loader& loader;
  const LearningRate& learning_rate;
  std::vector<std::unique_ptr<Evaluator>>& evaluators;
  std::vector<std::unique_ptr<Observer>>& observers;  // told in this order
  Saver& saver;
  BaseWatch& base;
  const MetricsLog* history;  // on rank 0: what trainer_state.json tells
};

struct TrainerSettings {
  RunFacts facts;
  double max_grad_norm = 0;
  /// Whether an evaluation, or a checkpoint, is due after step s, counted from 0.
  std::function<bool(std::int64_t step)> evaluates, saves;
  bool save_last = true;          // a checkpoint after the last step
  bool save_when_stopped = true;  // where the base was lost, if nothing that a resumed run needs is lost with it
  std::string resume_command;     // for people
  /// Steps in a row without a finite loss and gradient that end the run; each is skipped.
  std::int64_t nonfinite_patience = 1;
  /// For people: the rows of these micro-batches of step s, or, without any, of the whole step.
  std::function<std::string(std::int64_t step, std::span<const std::int64_t> micro_batches)> rows_of_step;
  std::int64_t micro_batch_size = 1;  // for trainer_state.json, as are the epochs
  double num_epochs = 1;
};

class Trainer {
 public:
  /// `state`: of a new run, or of the checkpoint that it resumes from; the model and the strategy have its values.
  Trainer(TrainerParts parts, TrainerSettings settings, TrainState state);

  /// A collective. Error(diverged) when loss or gradients are not finite for too many steps, IoError when pages of the
  /// base are lost, UserError when its files were changed.
  RunEnd run();
  const TrainState& state() const { return state_; }
  /// UserError when the base was changed in a way that makes what was computed wrong; else what has changed, or "". A
  /// collective.
  std::string checked_base();

 private:
  class Watch;  // of a step
  /// Error(diverged) when that was once too often; else the step is skipped.
  void refuse(const StepResult& result);
  /// Error(diverged) that names the damaged value. A collective.
  [[noreturn]] void refuse_damage(const std::string& what);
  Action start();
  /// One step and what follows from it.
  Action advance();
  StepMetrics step();
  /// Runs the evaluators that are due.
  Action evaluate(const EvaluationMoment& moment);
  void save();
  void begin_save();
  void finish_save() { report_saved(parts_.saver.finish()); }
  void report_saved(const std::string& path);
  /// IoError when pages of the base are lost, with a checkpoint of what was computed before.
  void stop_if_base_is_lost();
  Action agreed(const Action& mine);
  TrainerState trainer_state() const;
  std::string resume_hint() const;
  std::int64_t total() const { return parts_.schedule.steps(); }

  TrainerParts parts_;
  TrainerSettings settings_;
  TrainState state_;
  FiniteState finite_state_;
  std::int64_t saved_at_ = -1, updated_at_ = 0, refused_ = 0;  // refused_: steps in a row
};

}  // namespace dml
