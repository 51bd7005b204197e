// A read-only list of examples over mapped arrays: ids, labels and the origin of each. An example is one document, or a
// pair of documents: the chosen and then the rejected one, each with its prompt.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/packed_batch.h"

namespace dml {

/// The kind of an example, as the prepared folder stores it.
enum class ExampleKind : std::int32_t { document, pair, desirable, undesirable };

class Examples {
 public:
  Examples() = default;
  /// offsets has one more entry than there are examples. `chosen` lists the stored examples of this list, in order.
  /// kinds, splits and numbers (weight and margin of each) cover all stored examples, or are empty; weights cover all
  /// tokens, or are empty.
  Examples(std::span<const Token> ids, std::span<const Token> labels, std::span<const std::int64_t> offsets,
           std::span<const std::int32_t> chosen, std::span<const std::int32_t> kinds = {},
           std::span<const std::int32_t> splits = {}, std::span<const float> numbers = {},
           std::span<const float> weights = {})
      : ids_(ids),
        labels_(labels),
        offsets_(offsets),
        chosen_(chosen),
        kinds_(kinds),
        splits_(splits),
        numbers_(numbers),
        weights_(weights) {}

  std::int64_t size() const { return static_cast<std::int64_t>(chosen_.size()); }
  bool empty() const { return chosen_.empty(); }
  std::int64_t length(std::int64_t i) const { return end(i) - begin(i); }
  std::span<const Token> ids(std::int64_t i) const { return ids_.subspan(begin(i), length(i)); }
  /// Labels, not shifted: labels(i)[k] is ids(i)[k] if it is trained, else kIgnore.
  std::span<const Token> labels(std::int64_t i) const { return labels_.subspan(begin(i), length(i)); }
  ExampleKind kind(std::int64_t i) const {
    return kinds_.empty() ? ExampleKind::document : ExampleKind{kinds_[static_cast<std::size_t>(stored(i))]};
  }
  /// Of a pair: number of tokens of the chosen document, which comes first.
  std::int64_t split(std::int64_t i) const { return splits_[static_cast<std::size_t>(stored(i))]; }
  /// The weight of the example's loss.
  float weight(std::int64_t i) const { return number(i, 0, 1); }
  /// Of a pair: the margin by which a reward model should score the chosen document higher.
  float margin(std::int64_t i) const { return number(i, 1, 0); }
  /// The weights of the tokens' losses; empty: all 1.
  std::span<const float> weights(std::int64_t i) const {
    return weights_.empty() ? weights_
                            : weights_.subspan(static_cast<std::size_t>(begin(i)), static_cast<std::size_t>(length(i)));
  }
  /// Whether any loss has a weight other than 1.
  bool weighted() const {
    if (!weights_.empty()) return true;
    for (std::int64_t i = 0; i < size(); ++i)
      if (weight(i) != 1) return true;
    return false;
  }
  /// Whether the run also trains the prompts of chosen documents (rl: orpo); labels() still masks them.
  bool trains_chosen_prompts() const { return trains_chosen_prompts_; }
  void train_chosen_prompts(bool on) { trains_chosen_prompts_ = on; }
  std::int64_t documents(std::int64_t i) const { return kind(i) == ExampleKind::pair ? 2 : 1; }
  /// The tokens of the first or only document.
  std::span<const Token> first_document(std::int64_t i) const {
    return ids(i).first(static_cast<std::size_t>(kind(i) == ExampleKind::pair ? split(i) : length(i)));
  }
  /// Index of the example in the prepared folder.
  std::int32_t stored(std::int64_t i) const { return chosen_[static_cast<std::size_t>(i)]; }

  std::vector<std::int32_t> lengths() const {
    std::vector<std::int32_t> out(chosen_.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int32_t>(length(static_cast<std::int64_t>(i)));
    return out;
  }

 private:
  float number(std::int64_t i, std::size_t which, float absent) const {
    return numbers_.empty() ? absent : numbers_[2 * static_cast<std::size_t>(stored(i)) + which];
  }
  std::int64_t begin(std::int64_t i) const { return offsets_[static_cast<std::size_t>(stored(i))]; }
  std::int64_t end(std::int64_t i) const { return offsets_[static_cast<std::size_t>(stored(i)) + 1]; }
  std::span<const Token> ids_, labels_;
  std::span<const std::int64_t> offsets_;
  std::span<const std::int32_t> chosen_, kinds_, splits_;
  std::span<const float> numbers_, weights_;
  bool trains_chosen_prompts_ = false;
};

}  // namespace dml
