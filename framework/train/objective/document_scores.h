// Sums of log-probabilities by document, from the losses of the rows of a micro-batch; the logits are never there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/packed_batch.h"
#include "train/objective.h"

namespace dml {

struct DocumentScore {
  double answer = 0;       // sum of log p over the tokens of the answer, those of its tail with their weight
  double loss = 0;         // sum of −log p over them, without that weight
  double tokens = 0;       // their number
  double prompt_loss = 0;  // sum of −log p over the labels before the answer
  double prompt_labels = 0;
  double aligned =
      0;  // sum of log p − log Σ p² over the answer, where the squares are known: how likely the model itself says it
};

/// Calls visit(document, whether the row is of the answer, what its log p counts in the answer's score) for each
/// labelled row, in the order of the rows' losses.
template <class F>
void each_labelled_row(const PackedBatch& batch, F visit) {
  for (std::int64_t d = 0; d < batch.documents(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const DocumentGroup group = batch.groups.empty() ? DocumentGroup{} : batch.groups[i];
    for (std::int32_t t = 0; t < batch.starts[i + 1] - batch.starts[i]; ++t)
      if (batch.labels[static_cast<std::size_t>(batch.starts[i] + t)] != kIgnore)
        visit(d, t >= group.completion, t < group.tail ? 1.0 : group.tail_weight);
  }
}

/// losses: −log p at each labelled position, in order; squares: log Σ p² there, or empty.
void score_documents(const PackedBatch& batch, std::span<const float> losses, std::vector<DocumentScore>& out,
                     std::span<const float> squares = {});

/// The scores of a micro-batch's documents under the model as it is, without gradients.
void score_documents(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks, std::vector<float>& losses,
                     std::vector<DocumentScore>& out, Adapters adapters = Adapters::on);

/// A number for each document of a global batch, in the order of the micro-batches: the same on all ranks, with the
/// same bits on any number of them. `batch_of` chooses what is scored for a micro-batch.
std::vector<std::vector<double>> score_global_batch(
    const GlobalBatch& global, const std::function<const PackedBatch&(const PackedBatch&)>& batch_of,
    Adapters adapters = Adapters::on);

}  // namespace dml
