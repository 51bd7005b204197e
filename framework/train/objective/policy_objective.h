// Learning from rewards (GRPO and its relatives): at the start of a step completions are sampled for its prompts and
// scored (Completions), then an ordinary step is made with a weight for each of their tokens, the derivative of the
// clipped ratio.
//
// Several steps may share what was sampled at once (Schedule::Step::round, first_together); then the log-probabilities
// of that moment are computed once, for the ratio.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "data/schedule.h"
#include "train/objective.h"
#include "train/objective/policy_loss.h"

namespace dml {

/// A generated completion.
struct Completion {
  std::vector<Token> text;  // prompt and completion, with the token that ended it
  std::int32_t prompt = 0;  // tokens of the prompt
  bool ended = false;       // by itself, not by its length
  double advantage = 0;
  std::vector<double> old_logps = {};        // when it was generated; empty: as in the step that trains on it
  std::vector<double> reference_logps = {};  // in this step, where the reference follows the trained weights

  std::int64_t size() const { return std::ssize(text) - prompt; }
};

/// Samples and scores completions.
class Completions {
 public:
  struct Sampled {
    std::vector<std::vector<Completion>> steps;  // of each step that is sampled together, in the order of its examples
    std::vector<NamedValue> values = {};         // for the log
  };
  virtual ~Completions() = default;
  /// For the steps from `step` on that are generated together. A collective; the same on all ranks. UserError for
  /// rewards that are not numbers.
  virtual Sampled sample(std::int64_t step, CausalLm& model, Comm& comm) = 0;
  /// Bytes of the model's working memory, and beside it.
  struct Memory {
    std::size_t working = 0, beside = 0;
  };
  virtual Memory memory(CausalLm& model) = 0;
};

struct PolicyObjectiveSettings {
  PolicySettings loss = {};
  double temperature = 1;       // probabilities are those of the logits divided by it
  bool mask_truncated = false;  // completions that did not end have no loss
  bool share_prompts = true;    // a prompt is computed once for the completions of a micro-batch
  std::function<void()> swap_reference =
      {};  // with beta above 0, in place of a model: it and the trained weights change places
};

class PolicyObjective : public Objective {
 public:
  /// `reference`: with beta above 0, the model at the start, unless there is swap_reference.
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
  Json state() const override;
  void restore(const Json& state, const std::string& source) override;

 private:
  /// Documents of a list of completions as a micro-batch.
  PackedBatch packed(std::span<const Completion> completions, std::int64_t first);
  bool has_reference() const { return settings_.loss.beta > 0; }
  /// log p of the completions' tokens, whose steps begin with first_step, under the model as it is. A collective.
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
  Completions::Sampled sampled_;
  std::int64_t sampled_at_ = -1, step_ = -1;  // global steps
  std::span<const Completion> now_;           // of the step at hand
  std::vector<NamedValue> values_;
  // Of the micro-batch at hand; kept for their memory.
  std::vector<Token> tokens_, labels_;
  std::vector<std::int32_t> positions_, starts_, shared_;
  std::vector<float> losses_, reference_losses_;
  std::vector<double> logps_, reference_logps_;
  std::vector<PolicyToken> token_losses_;
};

}  // namespace dml
