// The contract between the text half and the math half: a micro-batch of whole documents laid end to end, without padding.
#pragma once

#include <cstdint>
#include <span>

namespace dml {

using Token = std::int32_t;

/// Label of a position that does not count in the loss.
inline constexpr Token kIgnore = -100;

struct PackedBatch {
  std::span<const Token> tokens;            // (T)
  std::span<const Token> labels;            // (T) already shifted: labels[t] is the token to predict at t, or kIgnore
  std::span<const std::int32_t> positions;  // (T) restart at 0 in every document
  std::span<const std::int32_t> starts;  // (documents + 1) document i is [starts[i], starts[i+1]); starts.back() == T

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t documents() const { return starts.empty() ? 0 : static_cast<std::int64_t>(starts.size()) - 1; }
  /// Positions of a document up to its last label; those behind it feed nothing.
  std::int64_t useful(std::int64_t document) const {
    const std::int32_t begin = starts[static_cast<std::size_t>(document)];
    std::int32_t end = starts[static_cast<std::size_t>(document) + 1];
    while (end > begin && labels[static_cast<std::size_t>(end) - 1] == kIgnore) --end;
    return end - begin;
  }
  /// Labels that count in the loss.
  std::int64_t learned() const {
    std::int64_t n = 0;
    for (Token label : labels) n += label != kIgnore;
    return n;
  }
};

}  // namespace dml
