// Log-likelihoods of texts, the way lm-evaluation-harness defines them. The context of several continuations is
// computed once: it is read into a cache, of which every continuation gets a copy.
#pragma once

#include <span>
#include <vector>

#include "model/causal_lm.h"
#include "nn/kv_cache.h"

namespace dml {

class Likelihoods {
 public:
  /// Computes on the model as it is; its values must be readable.
  explicit Likelihoods(CausalLm& model) : model_(model) {}

  /// Σ log p of every continuation after the context (neither empty). What is longer than the model's context is cut
  /// from the left; a continuation is never cut but one that is longer than the context by itself.
  std::vector<double> of(std::span<const Token> context, std::span<const std::vector<Token>> continuations);
  /// Σ log p of one continuation, and whether each of its tokens is the likeliest one (of equal ones, the first).
  struct Greedy {
    double log_likelihood = 0;
    bool is_greedy = true;
  };
  Greedy greedy(std::span<const Token> context, std::span<const Token> continuation);
  /// Σ log p of all tokens of a text, the first one behind `prefix`; in windows of the model's context, the later ones
  /// each with as many tokens in front as fit.
  double rolling(std::span<const Token> text, Token prefix);

 private:
  /// Σ log p of tokens[first, …) given all in front, computed without a cache.
  double plain(std::span<const Token> tokens, std::size_t first);
  void behind(const KvCache& cache, Token last, std::span<const std::vector<Token>> continuations,
              std::vector<double>& out);

  CausalLm& model_;
};

}  // namespace dml
