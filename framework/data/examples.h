// A read-only list of examples over mapped arrays: ids, labels and where each came from. An example is one document, or a
// pair of them: a preferred answer and, behind it, a rejected one, each with the prompt in front.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/packed_batch.h"

namespace dml {

/// What an example is made of, as the prepared folder stores it.
enum class ExampleKind : std::int32_t { document, pair, desirable, undesirable };

class Examples {
 public:
  Examples() = default;
  /// offsets has one entry more than there are examples; `chosen` names the examples of this list, in order. kinds and
  /// splits are of all examples, or empty.
  Examples(std::span<const Token> ids, std::span<const Token> labels, std::span<const std::int64_t> offsets,
           std::span<const std::int32_t> chosen, std::span<const std::int32_t> kinds = {},
           std::span<const std::int32_t> splits = {})
      : ids_(ids), labels_(labels), offsets_(offsets), chosen_(chosen), kinds_(kinds), splits_(splits) {}

  std::int64_t size() const { return static_cast<std::int64_t>(chosen_.size()); }
  bool empty() const { return chosen_.empty(); }
  std::int64_t length(std::int64_t i) const { return end(i) - begin(i); }
  std::span<const Token> ids(std::int64_t i) const { return ids_.subspan(begin(i), length(i)); }
  /// Not shifted: labels(i)[k] is ids(i)[k] where it is learned, else kIgnore.
  std::span<const Token> labels(std::int64_t i) const { return labels_.subspan(begin(i), length(i)); }
  ExampleKind kind(std::int64_t i) const {
    return kinds_.empty() ? ExampleKind::document : ExampleKind{kinds_[static_cast<std::size_t>(stored(i))]};
  }
  /// Of a pair: tokens of the preferred document, which comes first.
  std::int64_t split(std::int64_t i) const { return splits_[static_cast<std::size_t>(stored(i))]; }
  std::int64_t documents(std::int64_t i) const { return kind(i) == ExampleKind::pair ? 2 : 1; }
  /// Tokens of the first or only document.
  std::span<const Token> first_document(std::int64_t i) const {
    return ids(i).first(static_cast<std::size_t>(kind(i) == ExampleKind::pair ? split(i) : length(i)));
  }
  /// Number of the example in the prepared folder.
  std::int32_t stored(std::int64_t i) const { return chosen_[static_cast<std::size_t>(i)]; }

  std::vector<std::int32_t> lengths() const {
    std::vector<std::int32_t> out(chosen_.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int32_t>(length(static_cast<std::int64_t>(i)));
    return out;
  }

 private:
  std::int64_t begin(std::int64_t i) const { return offsets_[static_cast<std::size_t>(stored(i))]; }
  std::int64_t end(std::int64_t i) const { return offsets_[static_cast<std::size_t>(stored(i)) + 1]; }
  std::span<const Token> ids_, labels_;
  std::span<const std::int64_t> offsets_;
  std::span<const std::int32_t> chosen_, kinds_, splits_;
};

}  // namespace dml
