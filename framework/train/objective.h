// What a micro-batch teaches: the passes over the model that it takes, the sum of losses whose gradient they add to the
// units, and by what that sum is divided. Token loss (train/token_loss.h) is one of them.
//
// A loss is a sum over the global batch, divided once by a denominator that is summed over the global batch as well. So
// the result does not depend on how the batch is cut into micro-batches and ranks.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/packed_batch.h"
#include "dist/comm.h"
#include "model/causal_lm.h"
#include "nn/hooks.h"
#include "train/metrics.h"

namespace dml {

/// Sums over a micro-batch. Those of a global batch are added up in the order of the micro-batches.
struct LossSums {
  static constexpr std::size_t kMostTerms = 16;
  /// A further value for the log: sum ÷ weight, both over the global batch.
  struct Term {
    double sum = 0, weight = 0;
  };

  double loss = 0;                          // the sum whose gradient was added
  double denominator = 0;                   // what it is divided by: trained tokens, groups of documents …
  std::array<Term, kMostTerms> terms = {};  // as many as Objective::terms() names

  LossSums& operator+=(const LossSums& other);
  /// Adds a value to a term's mean.
  void add(std::size_t term, double value, double weight = 1) {
    terms[term].sum += value;
    terms[term].weight += weight;
  }
  double mean() const { return denominator > 0 ? loss / denominator : 0; }
};

/// The part of a loss that belongs to one document.
struct DocumentLoss {
  double loss = 0, denominator = 0;
};

/// All micro-batches of a step or of an evaluation, before the passes that train() or evaluate() make.
struct GlobalBatch {
  std::int64_t micro_batches = 0;
  const std::function<PackedBatch(std::int64_t micro_batch)>& load;  // valid until the next call
  CausalLm& model;
  UnitHooks& hooks;
  Comm& comm;
  std::int64_t step = 0;  // of training, from 0
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// The terms that are logged beside the loss, at most LossSums::kMostTerms.
  virtual std::span<const Metric> terms() const { return {}; }
  /// Of these, the ones that evaluate() gives.
  virtual std::span<const Metric> evaluated_terms() const { return terms(); }
  /// Computes what must be known of the whole global batch before its first gradient. Called on all ranks.
  virtual void begin(const GlobalBatch& /*batch*/) {}
  /// The micro-batch that is computed for one that was loaded: where documents are prompts, what was generated after
  /// them. Valid until the next call.
  virtual PackedBatch completed(const PackedBatch& loaded) { return loaded; }
  /// Values of the global batch beside the terms, the same on all ranks.
  virtual std::vector<NamedValue> batch_values() const { return {}; }
  /// The loss of the first step, where it is known: a model that is its own reference.
  virtual std::optional<double> loss_at_start() const { return std::nullopt; }
  /// Every pass over one micro-batch, forward and backward: adds the gradient of the returned loss to the units. The
  /// passes and their hooks are the same for every micro-batch, also one without tokens: other ranks may wait for its
  /// exchanges.
  virtual LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) = 0;
  /// The sums of train() without gradients, noise or dropout. `documents`, unless empty, is set: one entry per document
  /// of the batch, with a denominator of 0 where a document has no loss of its own.
  virtual LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                            std::span<DocumentLoss> documents = {}) = 0;
  /// Bytes of working memory for micro-batches of at most this shape.
  virtual std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
    return model.measure(shape, backward);
  }
  /// Bytes that begin() needs in addition to the model's working memory.
  virtual std::size_t extra_memory(CausalLm& /*model*/) { return 0; }
  /// State that a run resumed after this step needs; null: none. Equal on all ranks.
  virtual Json state() const { return nullptr; }
  /// Restores it. UserError where it is damaged.
  virtual void restore(const Json& /*state*/, const std::string& /*source*/) {}
};

/// The means of the terms that have any weight; `prefix` stands before the names.
std::vector<NamedValue> named_terms(std::span<const Metric> terms, const LossSums& sums,
                                    const std::string& prefix = "");

}  // namespace dml
