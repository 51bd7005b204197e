// A training run: everything that lives as long as it does, and its few moves. train() in train.cpp is the story; this is
// the cast. training_run_plan.cpp holds what it knows before the first step, training_run_files.cpp what it reads and writes,
// training_run_save.cpp its checkpoints.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_dir.h"
#include "data/loader.h"
#include "data/prepared.h"
#include "data/schedule.h"
#include "dist/strategy.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "pipeline/background.h"
#include "pipeline/base_model.h"
#include "pipeline/calendar.h"
#include "pipeline/memory_plan.h"
#include "pipeline/metrics.h"
#include "pipeline/relora.h"
#include "pipeline/samples.h"
#include "pipeline/signals.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

class TrainingRun {
 public:
  TrainingRun(const RecipeFile& file, Comm& comm);

  /// Ranks compare what they were given; Error(distributed) with a table when they differ.
  void agree();
  /// Spreads the model over the ranks: as it is when `from` is empty, else as that checkpoint left it.
  void start(const std::string& from);
  /// What was resolved, for the people who watch.
  std::vector<std::string> header() const;

  /// One optimizer step over the global batch. Error(diverged) when loss or gradients are no numbers.
  StepMetrics step();
  EvalMetrics evaluate();
  /// With generate_samples: what the model says now. A collective; on rank 0 alone there are samples.
  std::vector<Sample> samples();
  /// Begins a checkpoint of this moment; none is under way. `log` on rank 0.
  void begin_save(const MetricsLog* log);
  /// Moves it on; its path when it has become a checkpoint, else empty. Between steps, on all ranks.
  std::string poll_save();
  /// The same, and waits.
  std::string finish_save();
  bool saves_in_background() const { return memory_.snapshot > 0; }
  /// With load_best_model_at_end: the weights of the best evaluation, from its checkpoint.
  void return_to_best();
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
  /// Seconds that forward and backward of all steps take, from a short trial on this machine.
  double estimated_seconds();
  const Prepared& data() const { return prepared_; }
  const BaseModel& base() const { return base_; }
  CausalLm& model() { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Takes notice of an evaluation: the best so far, and whether patience is used up.
  bool gives_up(const EvalMetrics& eval);
  /// Patience was used up before; a run that is resumed right there has nothing left to do.
  bool out_of_patience() const;
  /// Whether no evaluation was better than that of this moment.
  bool at_best() const { return state_.best_step == state_.step; }
  /// What any rank was asked for since the last step.
  Wish agreed_wish() const { return wish_; }

 private:
  /// What this rank will hold. UserError when that is more than the host has, for all its ranks.
  void plan_memory();
  /// What the ranks of this host will still take, with so many bytes of activations each.
  std::size_t still_needed(std::size_t activations) const;
  TrainState load_values(const std::string& checkpoint);
  void read_values(const std::string& checkpoint);
  std::string recipe_digest() const;
  TrainerState trainer_state(const MetricsLog& log) const;
  void save_tokenizer(const std::string& folder) const;
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
  Prepared prepared_;
  Examples train_examples_, validation_examples_;
  Schedule schedule_;
  std::optional<Schedule> eval_schedule_;
  Loader loader_;
  std::optional<Loader> eval_loader_;
  Calendar calendar_;
  MemoryPlan memory_;  // its `process` is taken before the model is there
  std::unique_ptr<DistributionStrategy> strategy_;
  bool in_parts_;  // nobody ever holds all trained values
  std::string base_digest_;
  TrainableModel trainable_;
  CausalLm* model_;
  std::optional<Relora> relora_;
  std::unique_ptr<Optimizer> optimizer_;
  LearningRate learning_rate_;
  SignalWatch signals_;
  TrainState state_;
  std::vector<OptimizerSlice> slices_;
  Wish wish_ = Wish::none;
  std::int64_t without_improvement_ = 0, above_watchdog_ = 0;
  Snapshot snapshot_;
  std::optional<Save> saving_;
  BackgroundWork work_;  // the last: it ends before what it reads goes
};

}  // namespace dml
