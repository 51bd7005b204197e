// The sequences of a beam search: their texts, their KV caches, and the rows of the next forward pass.
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
    std::optional<KvCache> cache;  // set by begin()
    std::vector<Token> text;       // prompt and generated tokens
    std::int64_t longest = 0;      // maximum number of tokens of the text
  };
  /// Makes one sequence per prompt (none may be empty), each with room for its longest answer; at most `together` run
  /// at a time.
  Decoding(CausalLm& model, std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
           std::size_t together);

  /// Allocates caches for the listed sequences that have none, and working memory for reading the prompts of `fresh` in
  /// one call and for continuing all listed sequences.
  void begin(std::span<const std::size_t> fresh, std::span<const std::size_t> others);
  /// Computes the tokens that the caches of the listed sequences lack, or a text from its start if its cache has
  /// expired (CausalLm::cache_expires). Their logits become rows 0, 1, ….
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
