// The interface between the text half and the math half: a micro-batch of whole documents laid end to end, without
// padding.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace dml {

using Token = std::int32_t;

/// The label of a position that does not count in the loss.
inline constexpr Token kIgnore = -100;

/// The role of a document in its group: one of a pair of answers to a prompt, or a single answer rated good or bad
/// (KTO).
enum class DocumentRole : std::int32_t { alone, chosen, rejected, desirable, undesirable };

/// Preference data of a document.
struct DocumentGroup {
  DocumentRole role = DocumentRole::alone;
  std::int32_t group = 0;  // documents with the same number, within the micro-batch, belong together
  std::int32_t completion =
      0;                 // position in the document of the answer's first label; earlier labels belong to the prompt
  double reference = 0;  // log-probability of the answer under the reference model
  double weight = 1;     // of the group's loss
  double margin = 0;     // pairs for a reward model: how much higher the chosen answer is to score
  std::int32_t tail = std::numeric_limits<std::int32_t>::max();  // from this position of the document on …
  double tail_weight = 1;  // … the answer's log-probabilities are multiplied by this
};

struct PackedBatch {
  std::span<const Token> tokens;            // (T)
  std::span<const Token> labels;            // (T) shifted: labels[t] is the token to predict at position t, or kIgnore
  std::span<const std::int32_t> positions;  // (T) restart at 0 in every document
  std::span<const std::int32_t> starts;  // (documents + 1) document i is [starts[i], starts[i+1]); starts.back() == T
  std::span<const DocumentGroup> groups = {};  // (documents); empty without preference data
  std::span<const float> weights = {};         // (T) weight of each label's loss; empty: all 1
  std::int64_t first_group = 0;                // index of the first group within the step
  const PackedBatch* mismatched =
      nullptr;  // for each document, its prompt with the answer to another prompt (KTO); null if not needed
  std::span<const std::int32_t> shared =
      {};  // (documents): number of leading tokens shared with the previous document; empty: 0

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t documents() const { return starts.empty() ? 0 : static_cast<std::int64_t>(starts.size()) - 1; }
  /// The number of positions of a document up to its last label; later ones do not affect the loss.
  std::int64_t labeled_length(std::int64_t document) const {
    const std::int32_t begin = starts[static_cast<std::size_t>(document)];
    std::int32_t end = starts[static_cast<std::size_t>(document) + 1];
    while (end > begin && labels[static_cast<std::size_t>(end) - 1] == kIgnore) --end;
    return end - begin;
  }
  /// The number of labels that count in the loss.
  std::int64_t trained() const {
    std::int64_t n = 0;
    for (Token label : labels) n += label != kIgnore;
    return n;
  }
};

}  // namespace dml
