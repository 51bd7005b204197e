// The base class of objectives over documents. The loss of a micro-batch is a function of its rows' losses, so its
// gradient is that of cross-entropy with a weight for each row, known after the forward pass. Where the reference is
// the base without its adapter, a forward pass without adapters comes first.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "train/objective/document_scores.h"

namespace dml {

/// The source of the documents' reference scores: `batch`, they are loaded with the batch or not used at all; `base`, a
/// forward pass without adapters; `moving`, for pairs, weights that follow the trained ones (train/moving_reference.h)
/// and score every step's batch in begin().
enum class ReferenceSource { batch, base, moving };

struct DocumentReference {
  ReferenceSource source = ReferenceSource::batch;
  std::function<void()> swap = {};  // for `moving`: swaps the reference and the trained weights
};

class DocumentObjective : public Objective {
 public:
  std::span<const Metric> terms() const override { return terms_; }
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override;
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                    std::span<DocumentLoss> documents = {}) override;
  std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) override;
  void begin(const GlobalBatch& global) override;

  /// Computes the sums of a micro-batch and, unless `weights` is empty, the weights of its rows, from the rows' losses.
  /// Called after begin().
  virtual LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) = 0;

 protected:
  /// `pairs`: the two documents of a pair share their prompt. `reads_squares`: score() needs squares().
  DocumentObjective(DocumentReference reference, bool pairs, bool reads_squares = false)
      : reference_(std::move(reference)), pairs_(pairs), reads_squares_(reads_squares) {}
  /// Divides the loss of the last score() over the documents, all of which are zero before.
  virtual void divide(std::span<DocumentLoss> documents) const = 0;
  /// Computes the documents' scores over the whole global batch and, where they come from the base, their reference
  /// scores; for begin(). `batch_of` chooses what is scored for a micro-batch. Calls visit(micro-batch, groups of its
  /// documents, their scores).
  void score_all(
      const GlobalBatch& global, const std::function<const PackedBatch&(const PackedBatch&)>& batch_of,
      const std::function<void(std::int64_t, std::span<const DocumentGroup>, std::span<const double>)>& visit);

  /// log Σ p² of each row of the micro-batch; empty unless reads_squares.
  std::span<const float> squares() const { return squares_; }

  std::vector<Metric> terms_;
  std::vector<DocumentScore> documents_;  // of the current micro-batch; a member so that its memory is reused

 private:
  PackedBatch with_reference(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks);
  /// The score of document `document` of the micro-batch under the moving reference.
  double moving(const PackedBatch& batch, std::size_t document) const;

  DocumentReference reference_;
  bool pairs_, reads_squares_;
  std::vector<double> moving_;  // moving-reference scores of all documents of the global batch
  std::vector<float> losses_, squares_;
  std::vector<DocumentGroup> groups_;  // of the current micro-batch, with the base's reference scores
};

}  // namespace dml
