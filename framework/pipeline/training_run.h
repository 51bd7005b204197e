// TrainingRun owns the objects of a run; train() in train.cpp drives them. training_run_plan.cpp holds what is known before the
// first step, training_run_files.cpp what is read and written, training_run_save.cpp the checkpoints.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_dir.h"
#include "data/loader.h"
#include "data/prepared.h"
#include "data/schedule.h"
#include "core/mapped_watch.h"
#include "dist/strategy.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "pipeline/background.h"
#include "pipeline/base_model.h"
#include "pipeline/calendar.h"
#include "pipeline/companions.h"
#include "pipeline/memory_plan.h"
#include "pipeline/relora.h"
#include "pipeline/samples.h"
#include "pipeline/signals.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/evaluator.h"
#include "train/metrics_log.h"
#include "train/step.h"

namespace dml {

class TrainingRun {
 public:
  TrainingRun(const RecipeFile& file, Comm& comm);

  /// Ranks compare what they were given; Error(distributed) with a table when they differ.
  void agree();
  /// Spreads the model over the ranks: as it is when `from` is empty, else as that checkpoint left it.
  void start(const std::string& from);
  /// Five lines: model, training, data, schedule, memory.
  std::vector<std::string> header() const;
  /// What else is known of data and schedule.
  std::vector<std::string> details() const;
  /// Called with "training" or "evaluation", and how many of this rank's micro-batches are through.
  using OnPart = std::function<void(const char* what, std::int64_t done, std::int64_t total)>;
  void on_part(OnPart observer) { on_part_ = std::move(observer); }

  /// One optimizer step over the global batch. Error(diverged) when loss or gradients are not finite. When pages of the base
  /// were lost during the step (lost_base()), nothing is updated and the step counts as not done.
  StepMetrics step();
  /// Means nothing when pages of the base were lost.
  EvalMetrics evaluate();
  const Metric& best_metric() const { return best_metric_; }

  /// The base's file that was cut short while a step or an evaluation read it, on any rank; "" when there is none. What is
  /// trained is as it was after the last step.
  const std::string& lost_base() const { return lost_base_; }
  struct BaseChange {
    std::string text;    // "" when the base is what it was
    bool sound = false;  // what was computed is right all the same
  };
  /// Compares the base's files with those that the run began with. A collective.
  BaseChange base_change();
  /// Whether a checkpoint now would lose nothing that a resumed run needs, although a step was discarded.
  bool can_save_after_loss() const { return state_.step > 0 && strategy_->residuals().empty(); }
  /// With generate_samples: what the model says now. A collective; on rank 0 alone there are samples.
  std::vector<Sample> samples();
  /// Begins a checkpoint of this moment; none is under way. `log` on rank 0.
  void begin_save(const MetricsLog* log);
  /// Advances the save without waiting; returns its path when the checkpoint is complete, else "". Between steps, on all ranks.
  std::string poll_save();
  /// Like poll_save(), but blocks until the checkpoint is complete.
  std::string finish_save();
  bool saves_in_background() const { return memory_.snapshot > 0; }
  /// With load_best_model_at_end: loads the weights of the best evaluation from its checkpoint. Returns the step whose weights
  /// the model now has.
  std::int64_t return_to_best();
  /// Adapter or model into the output directory itself.
  void write_result();

  std::int64_t done() const { return state_.step; }
  std::int64_t total() const { return schedule_.steps(); }
  bool has_validation() const { return eval_schedule_.has_value(); }
  const Calendar& calendar() const { return calendar_; }
  const TrainState& state() const { return state_; }
  const MemoryPlan& memory() const { return memory_; }
  /// On disk, of all ranks together.
  std::size_t checkpoint_bytes() const;
  /// The largest micro_batch_size whose memory there is, 0 when there is none.
  std::int64_t largest_micro_batch();
  /// Estimates the seconds of training and evaluations from a short trial. For small models the trial takes real training
  /// steps, so do not use the run for anything else afterwards.
  double estimated_seconds();
  const Prepared& data() const { return prepared_; }
  const BaseModel& base() const { return base_; }
  CausalLm& model() { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Records an evaluation as the best so far or as one without improvement; whether patience is used up.
  bool record_evaluation(const EvalMetrics& eval);
  /// Whether patience was used up: a run that is resumed there has nothing left to do.
  bool out_of_patience() const;
  /// Whether the evaluation of this step is the best so far.
  bool at_best() const { return state_.best_step == state_.step; }
  /// What any rank was asked for by a signal since the last step.
  SignalRequest agreed_request() const { return request_; }

 private:
  /// What this rank will hold. UserError when that is more than the host has, for all its ranks.
  void plan_memory();
  /// What the ranks of this host will still take, with so many bytes of activations each.
  std::size_t still_needed(std::size_t activations) const;
  TrainState load_values(const std::string& checkpoint);
  void read_values(const std::string& checkpoint);
  class Watch;  // of a step
  /// Whether a rank has lost pages of the base; sets lost_base_. A collective.
  bool find_lost_base();
  /// The settings that decide the result, as YAML.
  std::string recipe_text() const;
  /// UserError naming what changed unless the run that made the checkpoint may be continued with this recipe.
  void check_recipe(const TrainState& found, const std::string& from) const;
  TrainerState trainer_state(const MetricsLog& log) const;
  /// Results so far, for the model card.
  CardFacts card_facts() const;
  /// Whether ranks hold slices of the optimizer's state, not all of it.
  bool holds_slices() const;
  /// What checkpoints take from copies: the trained model, or the adapter.
  bool copies_model() const;
  bool copies_adapter() const;
  std::size_t planned_copies(std::size_t state) const;
  /// Whether checkpoints are written from copies. A collective, of ranks that agree on what they train.
  void plan_copies();
  /// Both return what is left to be written.
  Jobs write_now(const std::string& folder);
  Jobs copy_for(const std::string& folder);
  void begin_commit();
  std::string end_save();
  /// Model or adapter, with its tokenizer, into a folder: the run's result or its part of a checkpoint. A collective.
  void write_weights(const std::string& folder, Dtype dtype, bool result);

  /// A checkpoint under way; all but `committing` on rank 0.
  struct Save {
    std::optional<CheckpointWriter> writer;
    TrainState state;
    TrainerState trainer;
    std::string path;
    bool committing = false;
  };

  const RecipeFile& file_;
  const Recipe& recipe_;
  Comm& comm_;
  std::unique_ptr<Tokenizer> tokenizer_;
  BaseModel base_;
  MappedWatch base_watch_;
  Prepared prepared_;
  Examples train_examples_, validation_examples_;
  Schedule schedule_;
  std::optional<Schedule> eval_schedule_;
  Loader loader_;
  Calendar calendar_;
  MemoryPlan memory_;  // its `process` is taken before the model is there
  std::unique_ptr<DistributionStrategy> strategy_;
  bool in_parts_;  // nobody ever holds all trained values
  std::string base_digest_;
  TrainableModel trainable_;
  CausalLm* model_;
  std::optional<Companions> companions_;
  std::optional<Relora> relora_;
  std::unique_ptr<Objective> objective_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  Metric best_metric_;
  std::unique_ptr<Optimizer> optimizer_;
  LearningRate learning_rate_;
  SignalWatch signals_;
  std::string recipe_text_, lost_base_;
  OnPart on_part_;
  TrainState state_;
  SignalRequest request_ = SignalRequest::none;
  std::int64_t without_improvement_ = 0, above_watchdog_ = 0;
  Snapshot snapshot_;
  std::optional<Save> saving_;
  BackgroundWork work_;  // the last: it ends before what it reads goes
};

}  // namespace dml
