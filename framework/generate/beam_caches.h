// The sequences of a beam search: their texts, their KV caches, and the rows of the next forward pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/generator.h"
#include "model/causal_lm.h"

namespace dml {

class BeamCaches {
 public:
  struct Sequence {
    KvCache cache;
    std::vector<Token> text;  // prompt and generated tokens
  };
  /// Makes `width` sequences of this prompt, which must not be empty, with empty caches that have room for its longest
  /// answer. Allocates working memory for reading the prompt once and for continuing all sequences.
  BeamCaches(CausalLm& model, const std::vector<Token>& prompt, std::size_t width, const GenerationOptions& options);

  /// Computes the tokens that the caches of the listed sequences lack, or the texts from their start if the caches have
  /// expired (CausalLm::cache_expires). The sequences have texts of one length, and caches of one length. Their logits
  /// become rows 0, 1, ….
  void read(std::span<const std::size_t> which);

  std::span<float> logits(std::size_t row) {
    return std::span(logits_).subspan(row * static_cast<std::size_t>(vocab_), static_cast<std::size_t>(vocab_));
  }
  std::vector<Sequence> sequences;

 private:
  std::size_t measure();
  void measure_again(std::size_t sequence);
  void call(std::span<const std::size_t> which, bool full, std::size_t row = 0);

  CausalLm& model_;
  std::int64_t vocab_;
  std::vector<std::int32_t> positions_;
  std::vector<Token> tokens_;
  std::vector<SequenceRows> rows_;
  std::vector<float> logits_;
};

}  // namespace dml
