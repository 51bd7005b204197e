#include "generate/generator.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"
#include "generate/beam_search.h"

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

// Room for the longest texts of these prompts that may go on together.
EngineOptions engine_options(std::span<const std::vector<Token>> prompts, const GenerationOptions& options) {
  EngineOptions out;
  out.slots = std::clamp<std::size_t>(options.together, 1, prompts.size());
  out.cache = options.cache;
  out.fair = false;
  out.drafts = options.constraint ? Engine::kUsualDrafts : 0;
  std::vector<std::int64_t> longest;
  for (const auto& prompt : prompts) longest.push_back(std::ssize(prompt) + options.longest_answer(prompt.size()));
  std::ranges::sort(longest, std::greater<>());
  out.context = longest[0];
  for (std::size_t i = 0; i < out.slots; ++i) out.cache_tokens += KvPool::pages_of(longest[i]) * KvPool::kTokens;
  return out;
}

void add(GenerationSpeed& to, const GenerationSpeed& more) {
  to.prompt_tokens += more.prompt_tokens;
  to.new_tokens += more.new_tokens;
  to.generated += more.generated;
  to.drafted += more.drafted;
  to.prompt_seconds += more.prompt_seconds;
  to.new_seconds += more.new_seconds;
}

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
  Engine engine({&model_}, engine_options(prompts, options));
  std::map<RequestId, std::size_t> number;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    number[engine.submit({.prompt = prompts[i],
                          .max_new_tokens = options.longest_answer(prompts[i].size()),
                          .sampling = options.sampling,
                          .number = options.first_number + i,
                          .stop_tokens = options.stop_tokens,
                          .constraint = options.constraint})] = i;
  while (engine.busy())
    for (const EngineEvent& event : engine.step()) {
      const std::size_t i = number.at(event.id);
      Generated& result = results[i];
      if (result.reason == StopReason::caller || event.kind == EngineEvent::Kind::read) continue;
      if (event.failure) std::rethrow_exception(event.failure);
      if (event.kind == EngineEvent::Kind::end) {
        result.reason = event.reason;
        continue;
      }
      result.tokens.push_back(event.choice.token);
      result.logprobs.push_back(event.choice.logprob);
      if (on_token && !on_token(i, event.choice.token)) {
        result.reason = StopReason::caller;
        engine.cancel(event.id);
      }
    }
  add(speed_, engine.speed());
  return results;
}

Generator::Memory Generator::measure(std::span<const std::vector<Token>> prompts, const GenerationOptions& options) {
  if (prompts.empty() || options.max_new_tokens <= 0) return {};
  DML_CHECK(options.beams <= 1);
  return Engine::measure(model_, engine_options(prompts, options));
}

}  // namespace dml
