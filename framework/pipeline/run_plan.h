// Everything known about a run before its first step: data, model, strategy, optimizer, memory, and the starting state.
// run_plan.cpp builds it, run_plan_memory.cpp plans memory and time, run_plan_text.cpp describes it, run_resume.cpp
// decides what may be resumed, run_reference.cpp computes reference scores.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assembly/calendar.h"
#include "assembly/checkpoint_files.h"
#include "assembly/memory_plan.h"
#include "core/mapped_watch.h"
#include "data/loader.h"
#include "data/prepared.h"
#include "data/schedule.h"
#include "optim/schedule.h"
#include "tokenizer/tokenizer.h"
#include "train/evaluator.h"
#include "train/step.h"

namespace dml {

/// All categories of memory with their sizes, in one line.
std::string plan_text(const MemoryPlan& plan);

/// The examples of a run and their schedule.
struct RunData {
  RunData(const Recipe& recipe, const Tokenizer& tokenizer, Comm& comm);
  RunData(const RunData&) = delete;
  RunData& operator=(const RunData&) = delete;

  Prepared prepared;
  Examples train, validation;
  ReferenceScores references;  // reference scores of the answers, set by RunPlan::start()
  Schedule schedule;
  std::optional<Schedule> eval_schedule;  // unset without a validation split
  Loader loader;
  Calendar calendar;
  /// The largest micro-batch of prompts with other prompts' answers, for rl: kto.
  CausalLm::Shape mismatched(const Recipe& recipe) const;
};

struct RunPlan {
  RunPlan(const RecipeFile& file, Comm& comm);
  RunPlan(const RunPlan&) = delete;
  RunPlan& operator=(const RunPlan&) = delete;

  const RecipeFile& file;
  const Recipe& recipe;
  Comm& comm;
  std::unique_ptr<Tokenizer> tokenizer;
  BaseModel base;
  MappedWatch base_files;
  RunData data;
  MemoryPlan memory;                 // its `process` is measured before the model is built
  bool saves_in_background = false;  // checkpoints are written from copies; the same on all ranks
  std::unique_ptr<DistributionStrategy> strategy;
  std::string base_digest;
  TrainableModel trainable;
  std::unique_ptr<TrainedForm> trained;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<Optimizer> optimizer;
  LearningRate learning_rate;
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  Metric best_metric;
  Companions companions;
  CheckpointFiles files;
  StepParts step_parts;
  std::string layout_reason;  // the reason for the numbers of ranks and threads; "" if they were not chosen

  CausalLm& model() const { return *trainable.model; }
  StepPlan step_plan(std::int64_t step) const;
  /// Checks that ranks agree on their inputs; Error(distributed) with a table where they differ.
  void agree();
  /// Distributes the model over the ranks, with the values of checkpoint `from` unless it is empty. Returns the
  /// starting state.
  TrainState start(const std::string& from);
  /// With load_best_model_at_end: loads the weights of the best evaluation from its checkpoint. Returns the step whose
  /// weights the model now has.
  std::int64_t load_best_model(const TrainState& state);

  /// Five lines: model, training, data, schedule, memory.
  std::vector<std::string> header() const;
  /// Further facts about data and schedule.
  std::vector<std::string> details() const;
  /// Size on disk, of all ranks together.
  std::size_t checkpoint_bytes() const;
  /// The largest micro_batch_size that fits into memory, up to most_tried(); 0 if none does.
  std::int64_t largest_micro_batch();
  /// The largest micro_batch_size that is tried; at least that of the recipe.
  std::int64_t most_tried() const;
  /// "micro_batch_size up to 9 fits in the 24.8 GB of available memory", or "of 4096 and more"; "" where that memory is
  /// not known.
  std::string fitting_text();
  /// Estimates the seconds of training and evaluations from a short trial. For small models the trial takes real
  /// training steps, so do not use the plan for anything else afterwards.
  double estimated_seconds();

 private:
  void plan_memory();
  /// Runs real steps for `seconds` seconds and returns seconds per token; 0 when that failed.
  double measured_token_seconds(double seconds);
  /// Bytes that the ranks of this host will still allocate, with `activations` bytes each.
  std::size_t still_needed(std::size_t activations) const;
  /// Decides for all ranks whether checkpoints are written from copies. A collective; ranks agree on what they train.
  void plan_copies();
  /// Reads or computes data.references. `values_loaded`: the model no longer has the values that the run began with.
  void find_references(bool values_loaded);
  std::string reference_path() const;
  TrainState load_values(const std::string& checkpoint);
  /// UserError naming what changed unless the run that made the checkpoint may be continued with this recipe.
  void check_recipe(const TrainState& found, const std::string& from) const;

  /// Keys of TrainState::extra: digests of further inputs.
  static constexpr const char *kRewardModels = "reward_models", *kEvals = "evals", *kStartAdapter = "lora_model_dir";
  static constexpr const char* kObjectiveState = "objective";  // written by earlier versions

  TrainState fresh_;         // the state of a new run
  std::string recipe_text_;  // as checkpoints record it (pipeline/resume_rules.h)
};

}  // namespace dml
