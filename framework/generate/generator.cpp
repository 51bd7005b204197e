#include "generate/generator.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/interruption.h"
#include "generate/beam_search.h"

namespace dml {
namespace {

// Passes a finished text to on_token token by token, which may end it.
void tell(Generated& result, std::size_t sequence, const Generator::OnToken& on_token) {
  for (std::size_t t = 0; on_token && t < result.tokens.size(); ++t)
    if (!on_token(sequence, result.tokens[t])) {
      result.tokens.resize(t + 1);
      result.logprobs.resize(t + 1);
      result.reason = StopReason::caller;
    }
}

// Engine options with memory for the longest texts of the prompts generated at a time.
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

// The requests of one call; unfinished ones are canceled by the destructor.
class Requests {
 public:
  explicit Requests(Engine& engine) : engine_(engine) {}
  ~Requests() {
    for (auto& [id, number] : numbers_) engine_.cancel(id);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  void submit(EngineRequest request, std::size_t number) { numbers_[engine_.submit(std::move(request))] = number; }
  std::size_t number(RequestId id) const { return numbers_.at(id); }

 private:
  Engine& engine_;
  std::map<RequestId, std::size_t> numbers_;
};

}  // namespace

std::vector<Generated> Generator::run(std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
                                      const OnToken& on_token, const OnEnd& on_end) {
  std::vector<Generated> results(prompts.size());
  if (prompts.empty() || options.max_new_tokens <= 0) return results;
  if (options.beams > 1) {
    DML_CHECK(!options.constraint);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      results[i] = beam_search(model_, prompts[i], options, speed_);
      tell(results[i], i, on_token);
      speed_.generated += std::ssize(results[i].tokens);
      if (on_end) on_end(i, results[i]);
    }
    return results;
  }
  const EngineOptions how = engine_options(prompts, options);
  const bool kept =
      kept_ && how.slots == 1 && how.context <= kept_->options().context && how.cache == kept_->options().cache;
  std::unique_ptr<Engine> own = kept ? nullptr : std::make_unique<Engine>(std::vector<EngineModel>{&model_}, how);
  run_on(kept ? *kept_ : *own, prompts, options, on_token, on_end, results);
  return results;
}

void Generator::run_on(Engine& engine, std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
                       const OnToken& on_token, const OnEnd& on_end, std::vector<Generated>& results) {
  Requests requests(engine);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    requests.submit({.prompt = prompts[i],
                     .max_new_tokens = options.longest_answer(prompts[i].size()),
                     .sampling = options.sampling,
                     .number = options.first_number + i,
                     .stop_tokens = options.stop_tokens,
                     .constraint = options.constraint},
                    i);
  while (engine.busy()) {
    check_interruption();
    for (const EngineEvent& event : engine.step()) {
      const std::size_t i = requests.number(event.id);
      Generated& result = results[i];
      if (result.reason == StopReason::caller || event.kind == EngineEvent::Kind::read) continue;
      if (event.failure) std::rethrow_exception(event.failure);
      if (event.kind == EngineEvent::Kind::end) {
        result.reason = event.reason;
        if (on_end) on_end(i, result);
        continue;
      }
      result.tokens.push_back(event.choice.token);
      result.logprobs.push_back(event.choice.logprob);
      if (on_token && !on_token(i, event.choice.token)) {
        result.reason = StopReason::caller;
        engine.cancel(event.id);
        if (on_end) on_end(i, result);
      }
    }
  }
  speed_ += engine.take_speed();
}

void Generator::keep(std::int64_t context, DType cache) {
  EngineOptions how;
  how.slots = 1;
  how.context = context;
  how.cache_tokens = KvPool::pages_of(context) * KvPool::kTokens;
  how.cache = cache;
  how.fair = false;
  how.drafts = Engine::kUsualDrafts;
  kept_ = std::make_unique<Engine>(std::vector<EngineModel>{&model_}, how);
}

Generator::Memory Generator::measure(std::span<const std::vector<Token>> prompts, const GenerationOptions& options) {
  if (prompts.empty() || options.max_new_tokens <= 0) return {};
  DML_CHECK(options.beams <= 1);
  return Engine::measure(model_, engine_options(prompts, options));
}

}  // namespace dml
