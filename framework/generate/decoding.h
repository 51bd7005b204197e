// The beams of a search: their texts, their caches, and the rows that the next call on the model holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "generate/generator.h"
#include "model/causal_lm.h"

namespace dml {

class Decoding {
 public:
  struct Sequence {
    std::optional<KvCache> cache;  // from begin() on
    std::vector<Token> text;       // prompt and what has been made of it
    std::int64_t longest = 0;      // tokens that the text may have
  };
  /// One sequence per prompt (none empty), each with room for its longest answer; at most `together` at a time.
  Decoding(CausalLm& model, std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
           std::size_t together);

  /// Takes memory for the caches of all that are listed and have none, for reading the prompts of `fresh` in one call,
  /// and for continuing all of them, whatever their length.
  void begin(std::span<const std::size_t> fresh, std::span<const std::size_t> others);
  /// Reads what the caches of the sequences listed lack of their texts, or a text from its start where its cache has
  /// expired (CausalLm::cache_expires); their logits become rows 0, 1, ….
  void read(std::span<const std::size_t> which);

  std::span<float> logits(std::size_t row) {
    return std::span(logits_).subspan(row * static_cast<std::size_t>(vocab_), static_cast<std::size_t>(vocab_));
  }
  std::vector<Sequence> sequences;

 private:
  std::size_t measure(std::span<const std::size_t> fresh, std::span<const std::size_t> others);
  bool expired(const Sequence& s) const;
  void measure_again(std::size_t sequence);
  void call(std::span<const std::size_t> which, bool full, std::size_t row = 0);

  CausalLm& model_;
  std::int64_t vocab_;
  DType dtype_;
  std::vector<std::int32_t> positions_;
  std::vector<Token> tokens_;
  std::vector<SequenceRows> rows_;
  std::vector<float> logits_;
};

}  // namespace dml
