// Samples the next token from logits: bias; repetition, presence and frequency penalties; temperature; top-k, top-p and
// min-p, in the order of Hugging Face; then one draw. Greedy decoding takes the largest logit, and the lowest id on a
// tie. Tokens that a constraint forbids are removed after the penalties and before all filters.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/packed_batch.h"

namespace dml {

struct SamplingOptions {
  bool greedy = false;
  double temperature = 1;
  std::int64_t top_k = 0;         // 0: off
  double top_p = 1, min_p = 0;    // 1 and 0: off
  double repetition_penalty = 1;  // above 1: logits of tokens seen before are divided (multiplied when negative)
  double presence_penalty = 0, frequency_penalty = 0;  // of generated tokens, not of the prompt's
  std::vector<std::pair<Token, float>> bias;           // added to the logits of these tokens; -infinity: never
  int top_logprobs = 0;  // number of most likely tokens that are reported in addition to the chosen one
  std::uint64_t seed = 0;

  bool penalizes() const { return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0; }
  bool changes_logits() const { return penalizes() || !bias.empty(); }
};

struct TokenLogprob {
  Token token = 0;
  float logprob = 0;  // of the model's own distribution, before bias, penalties and filters
};

class Sampler {
 public:
  Sampler(const SamplingOptions& options, std::int64_t vocab) : options_(options), vocab_(vocab) {}

  struct Choice {
    Token token = 0;
    float logprob = 0;                // as in TokenLogprob
    std::vector<TokenLogprob> top{};  // most likely first
  };
  /// `history`: prompt and generated tokens, of which the last `step` are generated. `sequence` and `step` address the
  /// random number. `allowed`: one bit per token, at least one is set; empty: all tokens are allowed. Changes `logits`.
  /// Error(diverged) when they are NaN. Thread-safe.
  Choice sample(std::span<float> logits, std::span<const Token> history, std::uint64_t sequence, std::uint64_t step,
                std::span<const std::uint64_t> allowed = {}) const;

  /// The log-probability of one token under these logits, with those of the most likely tokens.
  static Choice report(std::span<const float> logits, Token token, int top);

 private:
  // `log_total`: of these logits.
  static Choice reported(std::span<const float> logits, double log_total, Token token, int top);
  void penalize(std::span<float> logits, std::span<const Token> history, std::uint64_t step) const;
  Token draw(std::span<const float> logits, double uniform) const;

  SamplingOptions options_;
  std::int64_t vocab_;
};

}  // namespace dml
