// The plan of the whole run: the examples of each micro-batch of each optimizer step. A pure function of (lengths,
// options): ranks and resumed runs compute the same plan, and the numbers of steps, saves and evaluations are exact.
//
// A step never spans two epochs. The last step of an epoch may have fewer micro-batches and the last micro-batch fewer
// examples, so no example is skipped or repeated; the loss is a mean over tokens, so such a step is weighted correctly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/packer.h"

namespace dml {

struct DataSection;  // recipe/recipe.h
struct TrainSection;
struct TrlSettings;

struct ScheduleOptions {
  std::int64_t sequence_len = 512;
  std::int64_t micro_batch_size = 1;        // examples; with packing, bins of sequence_len tokens
  std::int64_t micro_batches_per_step = 1;  // over all ranks
  std::int64_t micro_batch_tokens = 0;      // preferences: maximum number of tokens of a micro-batch; 0: no limit
  double num_epochs = 1;                    // 1.5: the second epoch stops half way
  std::int64_t max_steps = 0;               // overrides num_epochs; 0: unset
  bool packing = false;
  bool keep_order = false;          // no shuffling; packing keeps the order, too
  bool sequential_packing = false;  // shuffled, but packed in that order
  bool group_by_length = false;     // without packing: examples of similar length share a micro-batch; with
                                    // micro_batch_tokens, a step
  std::int64_t group_size = 100000;
  std::int64_t bin_size = 200;
  std::int64_t documents = 1;   // per example
  std::int64_t copies = 1;      // of each example, consecutive: the completions of a prompt
  std::int64_t completion = 0;  // maximum number of tokens generated for each copy
  std::int64_t steps_together = 1,
               rounds = 1;  // steps whose completions are sampled together, and how often each step is repeated
  std::uint64_t seed = 42;

  /// Examples per step, without packing. With micro_batch_tokens, a step packs its examples in order: a micro-batch
  /// holds as many as fit into that many tokens, or one longer example. Gradients then have the same bits however
  /// step_examples is divided into micro_batch_size and micro_batches_per_step.
  std::int64_t step_examples() const { return micro_batch_size * micro_batches_per_step; }
};

/// `sampling`: rows are prompts that the model answers; null: they are not. UserError when the completions of a prompt
/// would be in different steps.
ScheduleOptions train_schedule(const DataSection& data, const TrainSection& train, std::int64_t ranks,
                               const TrlSettings* sampling);
/// Options for one pass over the examples in order, `micro_batches_per_step` at a time.
ScheduleOptions eval_schedule(const DataSection& data, const TrainSection& train, std::int64_t micro_batches_per_step);

/// Micro-batches of one epoch.
Lists plan_epoch(std::span<const std::int32_t> lengths, const ScheduleOptions& options, std::int64_t epoch);

class Schedule {
 public:
  /// `lengths`: of the examples; must not be empty.
  Schedule(std::vector<std::int32_t> lengths, ScheduleOptions options);

  struct Step {
    std::int64_t epoch = 0;              // from 0
    std::int64_t first_micro_batch = 0;  // within the epoch
    std::int64_t number = 0;             // within the epoch, counting repeated steps once
    std::int64_t round = 0;              // number of earlier steps with the same examples
    std::int64_t first_together = 0,
                 last_together = 0;  // global steps whose completions are sampled together: [first, last)
    std::int64_t micro_batches = 0;  // over all ranks; fewer in the last step of an epoch
    double epochs_done = 0;          // after this step; a share of micro-batches, with micro_batch_tokens of examples
  };
  std::int64_t steps() const { return steps_; }
  Step step(std::int64_t global_step) const;
  /// Examples of micro-batch m, 0 ≤ m < step(global_step).micro_batches. Valid until another epoch is requested, for
  /// which the epoch is planned anew: not to be called by several threads.
  std::span<const std::int32_t> examples(std::int64_t global_step, std::int64_t m) const;

  /// Number of tokens of the largest micro-batch of the run, for the memory plan; most_documents(): the largest number
  /// of documents in one.
  std::int64_t longest() const { return longest_; }
  std::int64_t most_documents() const { return most_documents_; }
  /// The largest number of micro-batches in a step, over all ranks.
  std::int64_t most_micro_batches() const { return most_micro_batches_; }
  /// Tokens ÷ (bins × sequence_len) of the first epoch; 1 without packing.
  double fill() const { return fill_; }
  /// Bins of the first epoch; 0 without packing.
  std::int64_t packed_rows() const { return packed_rows_; }
  /// Number of tokens of all steps.
  std::int64_t tokens() const { return tokens_; }
  const ScheduleOptions& options() const { return options_; }

 private:
  struct Epoch {
    std::int64_t micro_batches = 0, steps = 0, first_step = 0;
    std::int64_t different = 0;               // steps, counting repeated ones once
    std::vector<std::int64_t> first_of_step;  // first micro-batch of each of these, then micro_batches
  };
  Epoch plan_steps(std::int64_t epoch);
  void count(const Epoch& epoch, bool first);
  std::int64_t part_before(const Epoch& epoch, std::int64_t s) const;
  std::vector<std::int32_t> lengths_;
  ScheduleOptions options_;
  std::vector<Epoch> epochs_;
  std::int64_t steps_ = 0, longest_ = 0, most_documents_ = 0, most_micro_batches_ = 0, tokens_ = 0, packed_rows_ = 0;
  double fill_ = 1;
  mutable std::int64_t planned_ = -1;  // the epoch of plan_; −1: none
  mutable Lists plan_;
};

}  // namespace dml
