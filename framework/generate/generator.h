// Generates text for a list of prompts: submits them to an engine and waits for all. If there are more prompts than run
// at a time, the next one starts when another ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "constraint/token_mask.h"
#include "generate/engine.h"
#include "generate/sampler.h"
#include "model/causal_lm.h"

namespace dml {

struct GenerationOptions {
  SamplingOptions sampling;
  std::int64_t max_new_tokens = 256;
  std::int64_t context = 0;                     // maximum number of tokens of prompt and answer together; 0: no limit
  std::vector<Token> stop_tokens;               // end a sequence; not included in its text
  DType cache = DType::f32;                     // dtype of keys and values: f32, bf16 or int8
  std::int64_t beams = 1;                       // above 1: beam search instead of sampling
  double length_penalty = 1;                    // of beam search: above 0 prefers longer texts, below shorter ones
  std::size_t together = SIZE_MAX;              // number of sequences that run at a time
  std::size_t first_number = 0;                 // random-number index of the first sequence; each sequence has its own
  std::shared_ptr<TokenConstraint> constraint;  // restricts every answer; null: no restriction; not with beams

  /// The maximum number of new tokens after a prompt of `prompt` tokens; at least one.
  std::int64_t longest_answer(std::size_t prompt) const {
    const std::int64_t room = context - static_cast<std::int64_t>(prompt);
    return context > 0 ? std::clamp<std::int64_t>(room, 1, std::max<std::int64_t>(1, max_new_tokens)) : max_new_tokens;
  }
};

struct Generated {
  std::vector<Token> tokens;    // generated tokens, without the stop token
  std::vector<float> logprobs;  // one per token
  StopReason reason = StopReason::length;
};

class Generator {
 public:
  explicit Generator(CausalLm& model) : model_(model) {}

  /// Called with every new token of a sequence; false ends that sequence.
  using OnToken = std::function<bool(std::size_t sequence, Token token)>;
  /// Called with every sequence when it has ended.
  using OnEnd = std::function<void(std::size_t sequence, const Generated& result)>;
  /// Generates for all prompts (none may be empty).
  std::vector<Generated> run(std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
                             const OnToken& on_token = {}, const OnEnd& on_end = {});
  /// Keeps the KV cache between calls with one prompt each, for up to `context` tokens: only the part of the next
  /// prompt that differs is read, as for the turns of a conversation. Longer prompts and answers are generated without
  /// it.
  void keep(std::int64_t context, DType cache);
  const GenerationSpeed& speed() const { return speed_; }

  /// Bytes that run() needs for these prompts, without beam search. The model's values need not exist yet.
  using Memory = Engine::Memory;
  Memory measure(std::span<const std::vector<Token>> prompts, const GenerationOptions& options);

 private:
  void run_on(Engine& engine, std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
              const OnToken& on_token, const OnEnd& on_end, std::vector<Generated>& results);

  CausalLm& model_;
  std::unique_ptr<Engine> kept_;
  GenerationSpeed speed_;
};

}  // namespace dml
