// Training on rewards (GRPO and its variants): before a step, completions of its prompts are sampled and scored
// (Completions). The step then weighs the cross-entropy of each of their tokens by the derivative of the clipped ratio.
//
// Several steps may train on completions that were sampled together (Schedule::Step::round, first_together). The
// log-probabilities at the time of sampling are then computed once, for the ratio.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "data/schedule.h"
#include "train/objective.h"
#include "train/objective/completions.h"
#include "train/objective/policy_loss.h"

namespace dml {

/// Samples and scores completions.
class Completions {
 public:
  struct Sampled {
    std::vector<std::vector<Completion>>
        steps;                            // one list per step that is sampled together, in the order of its examples
    std::vector<NamedValue> values = {};  // values to log
  };
  virtual ~Completions() = default;
  /// Samples completions for step `step` and all steps that are sampled together with it. A collective; the result is
  /// the same on all ranks. UserError when a reward is not a number.
  virtual Sampled sample(std::int64_t step, CausalLm& model, Comm& comm) = 0;
  using Memory = ModelMemory;
  /// What sample() takes.
  virtual Memory memory(CausalLm& model) = 0;
};

struct PolicyObjectiveSettings {
  PolicySettings loss = {};
  double temperature = 1;                     // logits are divided by it
  bool mask_truncated = false;                // truncated completions have no loss
  bool share_prompts = true;                  // compute a prompt once for all its completions in a micro-batch
  std::function<void()> swap_reference = {};  // for a moving reference: swaps it and the trained weights
};

class PolicyObjective : public Objective {
 public:
  /// `reference`: the model at the start of the run, for beta > 0 without swap_reference.
  PolicyObjective(PolicyObjectiveSettings settings, const Schedule& schedule, std::unique_ptr<Completions> completions,
                  std::unique_ptr<CausalLm> reference = {});

  std::span<const Metric> terms() const override { return terms_; }
  void begin(const GlobalBatch& global) override;
  PackedBatch completed(const PackedBatch& loaded) override;
  std::vector<NamedValue> batch_values() const override { return values_; }
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override;
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                    std::span<DocumentLoss> documents = {}) override;
  std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) override;
  std::size_t extra_memory(CausalLm& model) override;
  void write_state(const std::string& folder) const override;
  void read_state(const std::string& checkpoint, const Json& earlier) override;

 private:
  /// Packs completions into a micro-batch, one document each.
  PackedBatch packed(std::span<const Completion> completions, std::int64_t first);
  bool has_reference() const { return settings_.loss.beta > 0; }
  /// Computes log p of the completions' tokens with the current values and stores it in member `to`. `steps` begins
  /// with step `first_step`. A collective.
  void find_logps(const GlobalBatch& global, std::int64_t first_step, std::span<std::vector<Completion>> steps,
                  std::vector<double> Completion::*to);
  void find_reference(const PackedBatch& batch);
  LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights);
  void log(const PolicyToken& token, double logp, LossSums& sums) const;
  double weight_of(const Completion& c) const;
  void divide(const PackedBatch& batch, LossSums& sums) const;

  PolicyObjectiveSettings settings_;
  const Schedule& schedule_;
  std::unique_ptr<Completions> source_;
  std::unique_ptr<CausalLm> reference_;
  std::vector<Metric> terms_;
  SampledSteps sampled_;
  std::int64_t step_ = -1;           // counted over the whole run
  std::span<const Completion> now_;  // completions of the current step
  std::vector<NamedValue> values_;
  // Buffers for the current micro-batch; members so that their memory is reused.
  std::vector<Token> tokens_, labels_;
  std::vector<std::int32_t> positions_, starts_, shared_;
  std::vector<float> losses_, reference_losses_;
  std::vector<double> logps_, reference_logps_;
  std::vector<PolicyToken> token_losses_;
};

}  // namespace dml
