// The base class of objectives over documents: the loss of a micro-batch is a function of its rows' losses, so its
// gradient is that of cross-entropy with a weight for each row, known when the forward pass is done. Where the
// reference is the base without its adapter, a forward pass without adapters comes first.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "train/objective/document_scores.h"

namespace dml {

/// Where documents' reference scores come from: the batch has them (or none are used), a pass without adapters, or, for
/// pairs, weights that follow the trained ones (train/moving_reference.h) and are asked at the start of every step.
enum class ReferenceSource { batch, base, moving };

struct DocumentReference {
  ReferenceSource source = ReferenceSource::batch;
  std::function<void()> swap = {};  // moving: it and the trained weights change places
};

class DocumentObjective : public Objective {
 public:
  std::span<const Metric> terms() const override { return terms_; }
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override;
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                    std::span<DocumentLoss> documents = {}) override;
  std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) override;
  void begin(const GlobalBatch& global) override;

  /// The sums of a micro-batch and, unless empty, the weights of its rows, from the rows' losses. begin() has seen the
  /// batch.
  virtual LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) = 0;

 protected:
  /// `pairs`: documents have prompts in common. `reads_squares`: score() needs squares().
  DocumentObjective(DocumentReference reference, bool pairs, bool reads_squares = false)
      : reference_(std::move(reference)), pairs_(pairs), reads_squares_(reads_squares) {}
  /// How the loss that score() found last is divided over the documents, all of which are zero before.
  virtual void divide(std::span<DocumentLoss> documents) const = 0;
  /// For begin(): the documents' scores in the whole batch, and, where they come from the base, their reference scores.
  /// `batch_of` chooses what is scored for a micro-batch; `visit(micro-batch, its documents' groups, their scores)`.
  void score_all(
      const GlobalBatch& global, const std::function<const PackedBatch&(const PackedBatch&)>& batch_of,
      const std::function<void(std::int64_t, std::span<const DocumentGroup>, std::span<const double>)>& visit);

  /// log Σ p² of the micro-batch's rows, or empty.
  std::span<const float> squares() const { return squares_; }

  std::vector<Metric> terms_;
  std::vector<DocumentScore> documents_;  // of the micro-batch at hand; kept for its memory

 private:
  PackedBatch with_reference(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks);
  /// The score of this document of the micro-batch under the moving reference.
  double moving(const PackedBatch& batch, std::size_t document) const;

  DocumentReference reference_;
  bool pairs_, reads_squares_;
  std::vector<double> moving_;  // scores of all documents of the global batch
  std::vector<float> losses_, squares_;
  std::vector<DocumentGroup> groups_;  // with the reference scores of the base
};

}  // namespace dml
