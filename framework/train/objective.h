// An objective defines the loss: which passes over the model a micro-batch takes, the sum of losses whose gradient they
// add to the units, and the denominator of that sum. Token loss (train/token_loss.h) is one objective.
//
// The loss is a sum over the global batch, divided once by a denominator that is also summed over the global batch. So
// it does not depend on how the batch is divided into micro-batches and among ranks.
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

/// Sums over one micro-batch. The sums of a global batch are added up in the order of its micro-batches.
struct LossSums {
  static constexpr std::size_t kMaxTerms = 16;
  /// A further value that is logged: sum ÷ weight, both over the global batch.
  struct Term {
    double sum = 0, weight = 0;
  };

  double loss = 0;                         // the sum whose gradient was added to the units
  double denominator = 0;                  // divisor of `loss`: number of trained tokens, of pairs …
  std::array<Term, kMaxTerms> terms = {};  // as many as Objective::terms() names

  LossSums& operator+=(const LossSums& other);
  /// Adds a value to the weighted mean of a term.
  void add(std::size_t term, double value, double weight = 1) {
    terms[term].sum += value;
    terms[term].weight += weight;
  }
  double mean() const { return denominator > 0 ? loss / denominator : 0; }
};

/// One document's share of the loss.
struct DocumentLoss {
  double loss = 0, denominator = 0;
};

/// The micro-batches of a step or of an evaluation, for Objective::begin(), which is called before their passes.
struct GlobalBatch {
  std::int64_t micro_batches = 0;
  const std::function<PackedBatch(std::int64_t micro_batch)>& load;  // valid until the next call
  CausalLm& model;
  UnitHooks& hooks;
  Comm& comm;
  std::int64_t step = 0;  // training step, counted from 0
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// The terms that are logged besides the loss, at most LossSums::kMaxTerms.
  virtual std::span<const Metric> terms() const { return {}; }
  /// The terms that evaluate() also computes.
  virtual std::span<const Metric> evaluated_terms() const { return terms(); }
  /// Computes what must be known about the whole global batch before its first gradient. A collective.
  virtual void begin(const GlobalBatch& /*batch*/) {}
  /// The micro-batch to train on in place of the one that was loaded: where documents are only prompts, the prompts
  /// with their sampled completions. Valid until the next call.
  virtual PackedBatch completed(const PackedBatch& loaded) { return loaded; }
  /// Further values of the global batch to log; the same on all ranks.
  virtual std::vector<NamedValue> batch_values() const { return {}; }
  /// The loss of the first step if it is known in advance, as it is for a model that is its own reference.
  virtual std::optional<double> loss_at_start() const { return std::nullopt; }
  /// Runs all passes over one micro-batch, forward and backward, and adds the gradient of the returned loss to the
  /// units. The passes and their hooks are the same for every micro-batch, including one without tokens, since other
  /// ranks may wait for its exchanges.
  virtual LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) = 0;
  /// Computes the same sums as train(), but without gradients, noise or dropout. If `documents` is not empty, one entry
  /// per document of the batch is set; its denominator is 0 where a document has no loss of its own.
  virtual LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                            std::span<DocumentLoss> documents = {}) = 0;
  /// Bytes of working memory for micro-batches of at most this shape.
  virtual std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
    return model.measure(shape, backward);
  }
  /// Bytes that begin() needs in addition to the model's working memory.
  virtual std::size_t extra_memory(CausalLm& /*model*/) { return 0; }
  /// Writes the state that a resumed run needs as files of a checkpoint; called on rank 0, since it is the same on all.
  virtual void write_state(const std::string& /*folder*/) const {}
  /// Reads it on every rank; `earlier`: the state that checkpoints of earlier versions have in dml_state.json, or null.
  /// UserError when it is damaged.
  virtual void read_state(const std::string& /*checkpoint*/, const Json& /*earlier*/) {}
};

/// The means of all terms whose weight is not 0, named `prefix` + name.
std::vector<NamedValue> named_terms(std::span<const Metric> terms, const LossSums& sums,
                                    const std::string& prefix = "");

}  // namespace dml
