// Text generation: whole prompts are read at once, then all sequences go on together, one token each a step. Where there are
// more prompts than may go on together, the next one takes the place of one that has ended. What a sequence becomes does
// not depend on its company.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "generate/sampler.h"
#include "model/causal_lm.h"

namespace dml {

struct GenerationOptions {
  SamplingOptions sampling;
  std::int64_t max_new_tokens = 256;
  std::vector<Token> stop_tokens;                  // end a sequence; not part of its text
  kernels::Storage cache = kernels::Storage::f32;  // of keys and values: f32, bf16 or int8
  std::int64_t beams = 1;                          // above 1: beam search instead of sampling
  double length_penalty = 1;                       // of beam search: above 0 prefers longer texts, below shorter ones
  std::size_t together = SIZE_MAX;                 // sequences that go on at a time
  std::size_t first_number = 0;                    // of the first sequence: each draws random numbers of its own
};

enum class StopReason { token, length, caller };

struct Generated {
  std::vector<Token> tokens;    // new ones, without the stop token
  std::vector<float> logprobs;  // of each
  StopReason reason = StopReason::length;
};

/// What generating has cost so far. An answer's first token comes with its prompt; the new ones are those behind it.
struct GenerationSpeed {
  std::int64_t prompt_tokens = 0, new_tokens = 0;
  double prompt_seconds = 0, new_seconds = 0;
};

class Generator {
 public:
  explicit Generator(CausalLm& model) : model_(model) {}

  /// Called with every new token of a sequence; false ends that sequence.
  using OnToken = std::function<bool(std::size_t sequence, Token token)>;
  /// Generates for all prompts (none may be empty).
  std::vector<Generated> run(std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
                             const OnToken& on_token = {});
  const GenerationSpeed& speed() const { return speed_; }

 private:
  CausalLm& model_;
  GenerationSpeed speed_;
};

}  // namespace dml
