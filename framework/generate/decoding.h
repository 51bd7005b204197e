// Sequences that are generated together: their texts, their caches, and the rows that the next call on the model holds.
// Weights are read once a call, whatever the number of sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/causal_lm.h"

namespace dml {

class Decoding {
 public:
  struct Sequence {
    KvCache cache;
    std::vector<Token> text;  // prompt and what has been made of it
  };
  /// One sequence per prompt (none empty), each with room for max_new_tokens more.
  Decoding(CausalLm& model, std::span<const std::vector<Token>> prompts, std::int64_t max_new_tokens,
           kernels::Storage cache);

  /// Lists of sequences whose texts are read in one call each: as many as fit into some hundred tokens.
  std::vector<std::vector<std::size_t>> groups() const;
  /// Working memory for reading these groups, and then for going on with all sequences, whatever their length.
  void reserve(std::span<const std::vector<std::size_t>> groups);
  /// Reads what the caches of the sequences listed lack of their texts; their logits become rows 0, 1, ….
  void read(std::span<const std::size_t> which);

  std::span<float> logits(std::size_t row) {
    return std::span(logits_).subspan(row * static_cast<std::size_t>(vocab_), static_cast<std::size_t>(vocab_));
  }
  std::vector<Sequence> sequences;

 private:
  void call(std::span<const std::size_t> which, bool full);

  CausalLm& model_;
  std::int64_t vocab_;
  std::vector<std::int32_t> positions_;
  std::vector<Token> tokens_;
  std::vector<SequenceRows> rows_;
  std::vector<float> logits_;
};

}  // namespace dml
