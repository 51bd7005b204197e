// Sums of log-probabilities per document, from the losses of a micro-batch's rows; logits are never stored.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/packed_batch.h"
#include "train/objective.h"

namespace dml {

struct DocumentScore {
  double answer = 0;       // sum of log p over the answer's tokens, those of its tail times tail_weight
  double loss = 0;         // sum of −log p over the answer's tokens, without tail_weight
  double tokens = 0;       // number of the answer's tokens
  double prompt_loss = 0;  // sum of −log p over the labels before the answer
  double prompt_labels = 0;
  double aligned = 0;  // sum of log p − log Σ p² over the answer, if `squares` are given
};

/// Calls visit(document, whether the row belongs to the answer, weight of its log p in the answer's score) for each
/// labeled row, in the order of the rows' losses.
template <class F>
void each_labeled_row(const PackedBatch& batch, F visit) {
  for (std::int64_t d = 0; d < batch.documents(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const DocumentGroup group = batch.groups.empty() ? DocumentGroup{} : batch.groups[i];
    for (std::int32_t t = 0; t < batch.starts[i + 1] - batch.starts[i]; ++t)
      if (batch.labels[static_cast<std::size_t>(batch.starts[i] + t)] != kIgnore)
        visit(d, t >= group.completion, t < group.tail ? 1.0 : group.tail_weight);
  }
}

/// losses: −log p at each labeled position, in order; squares: log Σ p² there, or empty.
void score_documents(const PackedBatch& batch, std::span<const float> losses, std::vector<DocumentScore>& out,
                     std::span<const float> squares = {});

/// Scores the documents of a micro-batch with the model's current values; a forward pass without gradients.
void score_documents(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks, std::vector<float>& losses,
                     std::vector<DocumentScore>& out, Adapters adapters = Adapters::on);

/// Scores every document of a global batch, in the order of the micro-batches; the same bits on all ranks, for any
/// number of ranks. `batch_of` chooses what is scored for a micro-batch.
std::vector<std::vector<double>> score_global_batch(
    const GlobalBatch& global, const std::function<const PackedBatch&(const PackedBatch&)>& batch_of,
    Adapters adapters = Adapters::on);

}  // namespace dml
