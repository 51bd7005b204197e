// Log-likelihoods of texts as lm-evaluation-harness defines them. The context of several continuations is computed
// once, into a cache that is copied for each continuation.
#pragma once

#include <span>
#include <vector>

#include "model/causal_lm.h"
#include "nn/kv_cache.h"

namespace dml {

class Likelihoods {
 public:
  /// Uses the model's current values, which must be readable.
  explicit Likelihoods(CausalLm& model) : model_(model) {}

  /// Σ log p of each continuation after the context (neither may be empty). A text longer than the model's context is
  /// truncated from the left; of a continuation, only one that by itself exceeds the context.
  std::vector<double> of(std::span<const Token> context, std::span<const std::vector<Token>> continuations);
  /// Σ log p of one continuation, and whether each of its tokens is the most likely one (the first of equals).
  struct Greedy {
    double log_likelihood = 0;
    bool is_greedy = true;
  };
  Greedy greedy(std::span<const Token> context, std::span<const Token> continuation);
  /// Σ log p of all tokens of a text, the first one after `prefix`. Longer texts are computed in windows of the model's
  /// context; in later windows, each token has as many preceding tokens as fit.
  double rolling(std::span<const Token> text, Token prefix);

 private:
  /// Σ log p of tokens[first, …) given the preceding ones, computed without a cache.
  double plain(std::span<const Token> tokens, std::size_t first);
  void behind(const KvCache& cache, Token last, std::span<const std::vector<Token>> continuations,
              std::vector<double>& out);

  CausalLm& model_;
};

}  // namespace dml
