#include "generate/generator.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/error.h"

namespace dml {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Sequence {
  KvCache cache;
  std::vector<Token> history;  // prompt and text so far
  bool done = false;
};

// One batch under way: the sequences, and the rows that the next call on the model holds.
class Batch {
 public:
  Batch(CausalLm& model, std::span<const std::vector<Token>> prompts, const GenerationOptions& options)
      : model_(model), vocab_(model.spec.vocab) {
    std::size_t longest = 0;
    for (auto& prompt : prompts) {
      DML_CHECK(!prompt.empty());
      auto capacity = static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens;
      sequences.push_back({KvCache(model.spec.layers, model.spec.kv_heads * model.spec.head_dim, capacity), prompt});
      longest = std::max(longest, prompt.size());
    }
    auto length = static_cast<std::int64_t>(longest) + options.max_new_tokens;
    if (model.length() < length) model.set_length(length);
    positions_.resize(std::max(longest, prompts.size()));
    tokens_.resize(prompts.size());
    rows_.resize(prompts.size());
    logits_.resize(prompts.size() * static_cast<std::size_t>(vocab_));
  }

  /// Reads a whole prompt; its logits are row 0.
  void prefill(std::size_t i, std::span<const Token> prompt) {
    std::iota(positions_.begin(), positions_.end(), 0);
    rows_[0] = {&sequences[i].cache, 0, static_cast<std::int64_t>(prompt.size())};
    model_.generate({prompt, {}, std::span(positions_).first(prompt.size()), {}}, std::span(rows_).first(1),
                    {logits_.data(), 1, vocab_});
  }
  /// One step for the sequences listed; their logits are rows 0, 1, ….
  void decode(std::span<const std::size_t> going) {
    for (std::size_t r = 0; r < going.size(); ++r) {
      Sequence& s = sequences[going[r]];
      tokens_[r] = s.history.back();
      positions_[r] = static_cast<std::int32_t>(s.cache.length());
      rows_[r] = {&s.cache, static_cast<std::int64_t>(r), 1};
    }
    model_.generate({std::span(tokens_).first(going.size()), {}, std::span(positions_).first(going.size()), {}},
                    std::span(rows_).first(going.size()),
                    {logits_.data(), static_cast<std::int64_t>(going.size()), vocab_});
  }
  std::span<float> logits(std::size_t row) {
    return std::span(logits_).subspan(row * static_cast<std::size_t>(vocab_), static_cast<std::size_t>(vocab_));
  }

  std::vector<Sequence> sequences;

 private:
  CausalLm& model_;
  std::int64_t vocab_;
  std::vector<std::int32_t> positions_;
  std::vector<Token> tokens_;
  std::vector<SequenceRows> rows_;
  std::vector<float> logits_;
};

}  // namespace

std::vector<Generated> Generator::run(std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
                                      const OnToken& on_token) {
  std::vector<Generated> results(prompts.size());
  if (prompts.empty() || options.max_new_tokens <= 0) return results;
  Batch batch(model_, prompts, options);
  std::vector<std::size_t> going(prompts.size());
  std::iota(going.begin(), going.end(), 0);
  auto by_length = [](auto& a, auto& b) { return a.size() < b.size(); };
  auto longest = std::max_element(prompts.begin(), prompts.end(), by_length);
  std::size_t need = model_.measure_calls([&] {
    batch.prefill(static_cast<std::size_t>(longest - prompts.begin()), *longest);
    // Decoding takes most with the caches full.
    for (Sequence& s : batch.sequences) s.cache.advance(s.cache.capacity() - 1);
    batch.decode(going);
    for (Sequence& s : batch.sequences) s.cache.truncate(0);
  });
  if (model_.reserved() < need) model_.reserve(need);

  Sampler sampler(options.sampling, model_.spec.vocab);
  // Chooses the next token of sequence i; true while it goes on.
  auto take = [&](std::size_t i, std::span<float> logits) {
    Generated& result = results[i];
    auto& history = batch.sequences[i].history;
    auto choice = sampler.sample(logits, history, i, result.tokens.size());
    if (std::ranges::find(options.stop_tokens, choice.token) != options.stop_tokens.end()) {
      result.reason = StopReason::token;
      return false;
    }
    result.tokens.push_back(choice.token);
    result.logprobs.push_back(choice.logprob);
    history.push_back(choice.token);
    if (on_token && !on_token(i, choice.token)) {
      result.reason = StopReason::caller;
      return false;
    }
    return static_cast<std::int64_t>(result.tokens.size()) < options.max_new_tokens;
  };

  auto start = Clock::now();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    batch.prefill(i, prompts[i]);
    batch.sequences[i].done = !take(i, batch.logits(0));
    speed_.prompt_tokens += static_cast<std::int64_t>(prompts[i].size());
  }
  speed_.prompt_seconds += seconds_since(start);

  start = Clock::now();
  auto done = [&](std::size_t i) { return batch.sequences[i].done; };
  for (std::erase_if(going, done); !going.empty(); std::erase_if(going, done)) {
    batch.decode(going);
    for (std::size_t r = 0; r < going.size(); ++r) batch.sequences[going[r]].done = !take(going[r], batch.logits(r));
    speed_.new_tokens += static_cast<std::int64_t>(going.size());
  }
  speed_.new_seconds += seconds_since(start);
  return results;
}

}  // namespace dml
