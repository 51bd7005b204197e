#include "generate/generator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/clock.h"
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

}  // namespace

std::vector<Generated> Generator::run(std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
                                      const OnToken& on_token) {
  std::vector<Generated> results(prompts.size());
  if (prompts.empty() || options.max_new_tokens <= 0) return results;
  if (options.beams > 1) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      results[i] = beam_search(model_, prompts[i], options, speed_);
      tell(results[i], i, on_token);
    }
    return results;
  }
  const std::size_t together = std::clamp<std::size_t>(options.together, 1, prompts.size());
  Decoding decoding(model_, prompts, options.max_new_tokens, options.cache, together);

  Sampler sampler(options.sampling, model_.spec.vocab);
  // Chooses the next token of sequence i; true while it goes on.
  auto take = [&](std::size_t i, std::span<float> logits) {
    Generated& result = results[i];
    auto& history = decoding.sequences[i].text;
    auto choice = sampler.sample(logits, history, options.first_number + i, result.tokens.size());
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

}  // namespace dml
