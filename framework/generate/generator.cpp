#include "generate/generator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "generate/beam_search.h"
#include "generate/decoding.h"

namespace dml {
namespace {

// A text that came at once, to a caller who may end it anywhere.
void tell(Generated& result, std::size_t sequence, const Generator::OnToken& on_token) {
  for (std::size_t t = 0; on_token && t < result.tokens.size(); ++t)
    if (!on_token(sequence, result.tokens[t])) {
      result.tokens.resize(t + 1);
      result.logprobs.resize(t + 1);
      result.reason = StopReason::caller;
    }
}

// What the constraint, if there is one, allows each sequence to say next.
class Constrained {
 public:
  Constrained(const GenerationOptions& options, std::size_t sequences, std::int64_t vocabulary)
      : constraint_(options.constraint.get()), stops_(options.stop_tokens) {
    if (!constraint_) return;
    texts_.assign(sequences, constraint_->start());
    allowed_.resize((static_cast<std::size_t>(vocabulary) + 63) / 64);
  }
  /// Makes allowed() that of sequence i; false when its text is complete and nothing can follow.
  bool allow(std::size_t i) {
    if (!constraint_) return true;
    const TokenSet& next = constraint_->allowed(texts_[i]);
    std::ranges::fill(allowed_, 0);
    std::ranges::copy_n(next.begin(), std::min(std::ssize(next), std::ssize(allowed_)), allowed_.begin());
    const bool goes_on = std::ranges::any_of(allowed_, [](std::uint64_t bits) { return bits != 0; });
    const bool ends = constraint_->may_end(texts_[i]);
    if (!goes_on && !ends)
      throw UserError("no token of the vocabulary continues the text as the constraint demands");
    for (Token stop : stops_)
      if (ends) allowed_[static_cast<std::size_t>(stop) / 64] |= std::uint64_t{1} << stop % 64;
    return goes_on;
  }
  /// A bit for each token; empty without a constraint.
  std::span<const std::uint64_t> allowed() const { return allowed_; }
  void accept(std::size_t i, Token token) {
    if (constraint_) texts_[i] = constraint_->after(texts_[i], token);
  }

 private:
  TokenConstraint* constraint_;
  std::span<const Token> stops_;
  std::vector<TokenConstraint::Text> texts_;
  TokenSet allowed_;
};

}  // namespace

std::vector<Generated> Generator::run(std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
                                      const OnToken& on_token) {
  std::vector<Generated> results(prompts.size());
  if (prompts.empty() || options.max_new_tokens <= 0) return results;
  if (options.beams > 1) {
    if (options.constraint) throw UserError("beam search does not support constraints; use --num-beams 1");
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      results[i] = beam_search(model_, prompts[i], options, speed_);
      tell(results[i], i, on_token);
      speed_.generated += std::ssize(results[i].tokens);
    }
    return results;
  }
  const std::size_t together = std::clamp<std::size_t>(options.together, 1, prompts.size());
  Decoding decoding(model_, prompts, options, together);

  Sampler sampler(options.sampling, model_.spec.vocab);
  Constrained constrained(options, prompts.size(), model_.spec.vocab);
  // Chooses the next token of sequence i; true while it goes on.
  auto take = [&](std::size_t i, std::span<float> logits) {
    Generated& result = results[i];
    auto& history = decoding.sequences[i].text;
    if (!constrained.allow(i)) {
      result.reason = StopReason::token;
      return false;
    }
    auto choice =
        sampler.sample(logits, history, options.first_number + i, result.tokens.size(), constrained.allowed());
    if (std::ranges::find(options.stop_tokens, choice.token) != options.stop_tokens.end()) {
      result.reason = StopReason::token;
      return false;
    }
    constrained.accept(i, choice.token);
    result.tokens.push_back(choice.token);
    result.logprobs.push_back(choice.logprob);
    ++speed_.generated;
    history.push_back(choice.token);
    if (on_token && !on_token(i, choice.token)) {
      result.reason = StopReason::caller;
      return false;
    }
    return std::ssize(result.tokens) < options.longest_answer(prompts[i].size());
  };

  std::vector<std::size_t> going;
  auto read = [&](std::span<const std::size_t> which) {
    decoding.read(which);
    for (std::size_t row = 0; row < which.size(); ++row)
      if (take(which[row], decoding.logits(row))) going.push_back(which[row]);
      else decoding.end(which[row]);
  };
  for (std::size_t next = 0; next < prompts.size() || !going.empty();) {
    auto start = Clock::now();
    if (std::size_t fresh = decoding.readable(next, together - going.size()); fresh > 0) {
      std::vector<std::size_t> group(fresh);
      std::iota(group.begin(), group.end(), next);
      next += fresh;
      decoding.begin(group, going);
      read(group);
      for (std::size_t i : group) speed_.prompt_tokens += std::ssize(prompts[i]);
      speed_.prompt_seconds += seconds_since(start);
    } else {
      speed_.new_tokens += std::ssize(going);
      read(std::exchange(going, {}));
      speed_.new_seconds += seconds_since(start);
    }
  }
  return results;
}

Generator::Memory Generator::measure(std::span<const std::vector<Token>> prompts, const GenerationOptions& options) {
  Memory most;
  if (prompts.empty() || options.max_new_tokens <= 0) return most;
  DML_CHECK(options.beams <= 1);
  const ModelSpec& spec = model_.spec;
  const std::size_t together = std::clamp<std::size_t>(options.together, 1, prompts.size());
  const CountedAsBound bound(model_.parameters, false);
  Decoding decoding(model_, prompts, options, together);
  auto longest = [&](std::size_t i) { return decoding.sequences[i].longest; };
  // As in run() if no sequence ended before the others need its place.
  std::vector<std::size_t> group, going;
  std::int64_t rows = 0;
  for (std::size_t next = 0; next < prompts.size(); next += group.size()) {
    if (going.size() == together) {
      rows -= longest(going.front());
      decoding.end(going.front());
      going.erase(going.begin());
    }
    group.resize(decoding.readable(next, together - going.size()));
    std::iota(group.begin(), group.end(), next);
    most.working = std::max(most.working, decoding.measure(group, going));
    going.insert(going.end(), group.begin(), group.end());
    for (std::size_t i : group) rows += longest(i);
    const std::int64_t cached =
        rows * KvCache::bytes_per_token(spec.layers, spec.kv_heads, spec.head_dim, options.cache);
    most.caches = std::max(most.caches, static_cast<std::size_t>(cached));
  }
  most.caches += together * static_cast<std::size_t>(spec.vocab) * sizeof(float);
  return most;
}

}  // namespace dml
