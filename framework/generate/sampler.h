// From logits to the next token: repetition, presence and frequency penalties, temperature, top-k, top-p, min-p, in the
// order in which Hugging Face applies them, then one draw. Greedy takes the largest logit, the lowest id on a tie. Tokens that
// a constraint does not allow are taken out behind the penalties, before all filters.
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
  double presence_penalty = 0, frequency_penalty = 0;
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  Sampler(const SamplingOptions& options, std::int64_t vocab);

  struct Choice {
    Token token = 0;
    float logprob = 0;  // of the model's own distribution, before penalties and filters
  };
  /// `history`: prompt and text so far. `sequence` and `step` address the random number. `allowed`: a bit for each token that
  /// may be chosen, at least one; empty: all may. Changes `logits`. Error(diverged) when they are not numbers.
  Choice sample(std::span<float> logits, std::span<const Token> history, std::uint64_t sequence, std::uint64_t step,
                std::span<const std::uint64_t> allowed = {});

 private:
  void penalise(std::span<float> logits, std::span<const Token> history);
  Token draw(std::span<const float> logits, double uniform);

  SamplingOptions options_;
  std::vector<std::int32_t> counts_;
  std::vector<float> own_;  // the logits as they came
  std::vector<std::pair<float, Token>> candidates_;
};

}  // namespace dml
