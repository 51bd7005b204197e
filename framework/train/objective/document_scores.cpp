#include "train/objective/document_scores.h"

#include <cstring>

#include "core/error.h"
#include "train/passes_in_step.h"

namespace dml {

void score_documents(const PackedBatch& batch, std::span<const float> losses, std::vector<DocumentScore>& out,
                     std::span<const float> squares) {
  out.assign(static_cast<std::size_t>(batch.documents()), {});
  std::size_t row = 0;
  each_labeled_row(batch, [&](std::int64_t document, bool answer, double weight) {
    DocumentScore& score = out[static_cast<std::size_t>(document)];
    const double loss = static_cast<double>(losses[row]),
                 square = squares.empty() ? 0 : static_cast<double>(squares[row]);
    ++row;
    if (answer) score.answer -= weight * loss, score.loss += loss, score.tokens += 1, score.aligned -= loss + square;
    else score.prompt_loss += loss, score.prompt_labels += 1;
  });
  DML_CHECK(row == losses.size());
}

void score_documents(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks, std::vector<float>& losses,
                     std::vector<DocumentScore>& out, Adapters adapters) {
  losses.resize(static_cast<std::size_t>(batch.trained()));
  model.evaluate(batch, hooks, losses, adapters);
  score_documents(batch, losses, out);
}

std::vector<std::vector<double>> score_global_batch(
    const GlobalBatch& global, const std::function<const PackedBatch&(const PackedBatch&)>& batch_of,
    Adapters adapters) {
  std::vector<std::vector<double>> out(static_cast<std::size_t>(global.micro_batches));
  std::vector<float> losses;
  std::vector<DocumentScore> scores;
  const std::int64_t ranks = global.comm.size();
  passes_in_step(global.comm, global.micro_batches, [&](std::int64_t m, bool own) {
    score_documents(global.model, batch_of(global.load(m)), global.hooks, losses, scores, adapters);
    for (const DocumentScore& s : scores)
      if (own) out[static_cast<std::size_t>(m)].push_back(s.answer);
  });
  if (ranks == 1) return out;
  std::string bytes;
  for (std::int64_t m = global.comm.rank(); m < global.micro_batches; m += ranks) {
    const auto& values = out[static_cast<std::size_t>(m)];
    const std::uint64_t count = values.size();
    bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
    bytes.append(reinterpret_cast<const char*>(values.data()), count * sizeof(double));
  }
  const auto parts = global.comm.all_gather(bytes);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::string_view rest = parts[static_cast<std::size_t>(rank)];
    for (std::int64_t m = rank; m < global.micro_batches; m += ranks) {
      std::uint64_t count = 0;
      DML_CHECK(rest.size() >= sizeof count);
      std::memcpy(&count, rest.data(), sizeof count);
      rest.remove_prefix(sizeof count);
      DML_CHECK(rest.size() >= count * sizeof(double));
      auto& values = out[static_cast<std::size_t>(m)];
      values.resize(count);
      std::memcpy(values.data(), rest.data(), count * sizeof(double));
      rest.remove_prefix(count * sizeof(double));
    }
  }
  return out;
}

}  // namespace dml
