#include "generate/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "generate/sequence.h"

namespace dml {
namespace {

constexpr std::int64_t kMinRead = 32;     // tokens: products of fewer rows take hardly less time
constexpr double kOwed = 1.1;             // seconds of writing per second of reading
constexpr std::int64_t kPagesAhead = 16;  // pages reserved at a time, so that they are adjacent

std::int64_t output_rows(const EngineOptions& o) {
  return std::max(static_cast<std::int64_t>(o.slots) + o.drafts, o.reports);
}

}  // namespace

GenerationSpeed& GenerationSpeed::operator+=(const GenerationSpeed& more) {
  prompt_tokens += more.prompt_tokens;
  new_tokens += more.new_tokens;
  cached_tokens += more.cached_tokens;
  generated += more.generated;
  drafted += more.drafted;
  prompt_seconds += more.prompt_seconds;
  new_seconds += more.new_seconds;
  return *this;
}

std::string GenerationSpeed::text() const {
  const std::string known = cached_tokens > 0 ? fmt::format(" ({} of them in the cache)", cached_tokens) : "";
  const std::string rate = new_seconds > 0 && new_tokens > 0
                               ? fmt::format(" at {:.1f} tokens/s", static_cast<double>(new_tokens) / new_seconds)
                               : "";
  return fmt::format("Prompt: {} tokens{}, {:.2f} s. Generated: {} tokens{}", prompt_tokens, known, prompt_seconds,
                     generated, rate);
}

Engine::Engine(std::vector<EngineModel> models, const EngineOptions& options)
    : models_(std::move(models)),
      options_(options),
      pool_(models_.at(0).base->spec.layers, models_[0].base->spec.kv_heads, models_[0].base->spec.head_dim,
            KvPool::pages_of(options.cache_tokens), options.cache),
      prefixes_(pool_),
      states_(static_cast<std::size_t>(options.reports * models_[0].base->spec.hidden)) {
  DML_CHECK(options_.slots > 0 && options_.context > 0 && options_.reading > 0);
  for (const EngineModel& m : models_)
    if (std::ranges::find(bases_, m.base) == bases_.end()) bases_.push_back(m.base);
  std::int64_t vocabulary = 0;
  for (CausalLm* model : bases_) {
    const std::size_t need = measure(*model, options_).working;
    if (model->length() < options_.context) model->set_length(options_.context);
    if (model->reserved() < need) model->reserve(need);
    vocabulary = std::max(vocabulary, model->spec.vocab);
  }
  logits_.resize(static_cast<std::size_t>(output_rows(options_) * vocabulary));
}

Engine::~Engine() = default;

const EngineModel& Engine::model_of(const Sequence& s) const { return models_[s.request.model]; }

// The largest calls: all that is read in a step, as many sequences as there are slots, the first after a whole
// context; rows that are reported on; and a token for each slot after a whole context, with those that are written
// ahead.
Engine::Memory Engine::measure(CausalLm& model, const EngineOptions& o) {
  const ModelSpec& spec = model.spec;
  if (model.length() < o.context) model.set_length(o.context);
  const PlaceholderBinding bound(model.parameters, false);
  KvPool pool(spec.layers, spec.kv_heads, spec.head_dim, 0, o.cache);
  auto call = [&](std::span<const std::int64_t> counts, bool all_outputs, kernels::RowMethod how) {
    std::vector<KvCache> caches;
    std::vector<SequenceRows> rows;
    caches.reserve(counts.size());
    std::int64_t at = 0, outputs = 0;
    for (std::int64_t count : counts) {
      caches.emplace_back(pool).assume(o.context - count);
      rows.push_back({&caches.back(), at, count, all_outputs ? count : 1});
      at += count;
      outputs += rows.back().outputs;
    }
    const std::vector<Token> tokens(static_cast<std::size_t>(at), 0);
    const std::vector<std::int32_t> positions(tokens.size(), 0);
    float* somewhere = reinterpret_cast<float*>(Arena::kAlignment);
    model.generate({tokens, {}, positions, {}}, rows, {somewhere, outputs, spec.vocab}, how);
  };
  const auto slots = static_cast<std::int64_t>(o.slots);
  std::int64_t left = std::min(o.reading, slots * o.context);
  std::vector<std::int64_t> counts;
  for (std::int64_t others = std::min(slots, left) - 1; others >= 0; --others) {
    counts.push_back(std::min(left - others, o.context));
    left -= counts.back();
  }
  Memory memory;
  memory.working = model.measure_calls([&] {
    call(counts, false, kernels::RowMethod::packed);
    if (o.reports > 0) call(std::array{std::min(o.reports, o.context)}, true, kernels::RowMethod::packed);
    std::vector<std::int64_t> written(o.slots, 1);
    written[0] = std::min(1 + o.drafts, o.context);
    call(written, true, kernels::RowMethod::dots);
  });
  memory.beside =
      static_cast<std::size_t>(KvPool::pages_of(o.cache_tokens) * KvPool::kTokens *
                               KvCache::bytes_per_token(spec.layers, spec.kv_heads, spec.head_dim, o.cache)) +
      static_cast<std::size_t>(output_rows(o) * spec.vocab + o.reports * spec.hidden) * sizeof(float);
  return memory;
}

RequestId Engine::submit(EngineRequest request) {
  DML_CHECK(!request.prompt.empty() && request.model < models_.size());
  const auto size = std::ssize(request.prompt);
  const std::int64_t longest = size + (request.embedding ? 0 : std::max<std::int64_t>(0, request.max_new_tokens));
  if (longest > options_.context || KvPool::pages_of(longest) > pool_.pages())
    throw UserError("the prompt has {} tokens and the answer may have {}; the context is {} tokens", size,
                    longest - size, std::min(options_.context, pool_.pages() * KvPool::kTokens));
  const std::int64_t vocabulary = models_[request.model].base->spec.vocab;
  if (const Token largest = std::ranges::max(request.prompt); largest >= vocabulary)
    throw UserError("the prompt has token {}; the model's embedding has {} rows", largest, vocabulary);
  std::erase_if(request.stop_tokens, [&](Token stop) { return stop < 0 || stop >= vocabulary; });  // never generated
  auto sequence = std::make_unique<Sequence>(++last_id_, std::move(request), vocabulary, pool_);
  sequence->longest = longest;
  waiting_.push_back(sequence.get());
  sequences_.emplace(last_id_, std::move(sequence));
  return last_id_;
}

void Engine::cancel(RequestId id) {
  if (auto found = sequences_.find(id); found != sequences_.end()) leave(*found->second);
}

void Engine::leave(Sequence& s) {
  if (std::erase(running_, &s) > 0) reserved_pages_ -= KvPool::pages_of(s.longest);
  else std::erase(waiting_, &s);
  sequences_.erase(s.id);
}

void Engine::forget() {
  DML_CHECK(!busy());
  while (prefixes_.evict()) {
  }
}

void Engine::end(Sequence& s, StopReason reason, std::exception_ptr failure, Sampler::Choice last) {
  EngineEvent event{.id = s.id, .kind = EngineEvent::Kind::end, .choice = std::move(last)};
  event.reason = reason;
  event.failure = std::move(failure);
  for (double x : s.mean) event.embedding.push_back(static_cast<float>(x / static_cast<double>(s.text.size())));
  events_.push_back(std::move(event));
  leave(s);
}

double Engine::cache_usage() const {
  return pool_.pages() == 0 ? 0 : static_cast<double>(reserved_pages_) / static_cast<double>(pool_.pages());
}

std::span<const EngineEvent> Engine::step() {
  events_.clear();
  admit();
  std::vector<Sequence*> writers;
  std::ranges::copy_if(running_, std::back_inserter(writers), [](const Sequence* s) { return !s->reading; });
  read_fairly(!writers.empty());
  if (writers.empty()) return events_;
  const auto start = Clock::now();
  std::vector<std::vector<Sequence*>> of_base(bases_.size());  // before any sequence ends, and with it its object
  for (Sequence* s : writers)
    of_base[static_cast<std::size_t>(std::ranges::find(bases_, model_of(*s).base) - bases_.begin())].push_back(s);
  for (std::vector<Sequence*>& mine : of_base) {
    std::ranges::stable_sort(mine, {}, [&](Sequence* s) { return model_of(*s).adapter; });
    if (!mine.empty()) write(mine);
  }
  write_seconds_ = seconds_since(start);
  owed_seconds_ -= write_seconds_;
  speed_.new_seconds += write_seconds_;
  return events_;
}

// Reads prompts. While answers are written, each second of reading is followed by kOwed seconds of writing before more
// is read, so their tokens arrive at half the rate on average.
void Engine::read_fairly(bool beside_answers) {
  const bool fair = options_.fair && beside_answers;
  if (fair && owed_seconds_ > 0) return;
  const auto budget = fair ? std::min(static_cast<std::int64_t>(fair_reading_), options_.reading) : options_.reading;
  const auto start = Clock::now();
  const std::int64_t tokens = read_some(budget);
  if (tokens == 0) return;
  const double reading = seconds_since(start);
  speed_.prompt_seconds += reading;
  owed_seconds_ = fair ? reading * kOwed : 0;
  if (!fair || tokens < budget || write_seconds_ == 0) return;
  const double change = reading < 0.65 * write_seconds_ ? 1.3 : reading > 0.85 * write_seconds_ ? 0.75 : 1;
  fair_reading_ = std::clamp(fair_reading_ * change, static_cast<double>(std::min(kMinRead, options_.reading)),
                             static_cast<double>(options_.reading));
}

// Reads parts of prompts, at most `budget` tokens over all bases; returns their number. Bases take turns at being the
// first, since one may have use for the whole budget.
std::int64_t Engine::read_some(std::int64_t budget) {
  std::int64_t tokens = 0;
  const std::size_t first = first_to_read_++;
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    CausalLm* base = bases_[(first + i) % bases_.size()];
    std::vector<Sequence*> mine = readable();
    std::erase_if(mine, [&](Sequence* s) { return model_of(*s).base != base; });
    if (mine.empty() || tokens >= budget) continue;
    std::vector<Part> now = parts(std::move(mine), budget - tokens);
    std::ranges::stable_sort(now, {}, [&](const Part& part) { return model_of(*part.sequence).adapter; });
    for (const Part& part : now) tokens += part.tokens;
    read(now);
  }
  return tokens;
}

void Engine::admit() {
  while (!waiting_.empty() && running_.size() < options_.slots) {
    Sequence& s = *waiting_.front();
    if (reserved_pages_ + KvPool::pages_of(s.longest) > pool_.pages()) return;
    reserved_pages_ += KvPool::pages_of(s.longest);
    waiting_.pop_front();
    running_.push_back(&s);
  }
}

std::uint64_t Engine::root_of(const Sequence& s) {
  const std::pair key(s.request.model, model_of(s).base->angles_of(std::ssize(s.text)));
  return roots_.try_emplace(key, roots_.size()).first->second;
}

// A text waits for its pages while another request reads the same beginning.
bool Engine::must_wait(const Sequence& s) const {
  if (!s.may_share()) return false;
  for (const Sequence* other : running_) {
    if (other == &s) return false;  // newer requests do not count
    if (!other->reading || other->root != s.root) continue;
    const auto most = std::min(s.text.size() - 1, other->text.size());
    const auto common =
        std::mismatch(s.text.begin(), s.text.begin() + static_cast<std::ptrdiff_t>(most), other->text.begin()).first -
        s.text.begin();
    if (const std::int64_t shared = common / KvPool::kTokens * KvPool::kTokens; other->cache.length() < shared)
      return true;
  }
  return false;
}

// The sequences that may read, with cached prefixes attached.
std::vector<Engine::Sequence*> Engine::readable() {
  std::vector<Sequence*> out;
  for (Sequence* s : running_) {
    if (!s->reading) continue;
    if (!s->begun) {
      s->root = root_of(*s);
      if (must_wait(*s)) continue;
      s->begun = true;
      if (s->may_share()) s->cache.begin(prefixes_.find(s->root, std::span(s->text).first(s->text.size() - 1)));
      s->cached = s->cache.length();
    }
    out.push_back(s);
  }
  return out;
}

// Divides the budget: half to the oldest request, the rest to those with the fewest tokens left. A request with reports
// reads alone.
std::vector<Engine::Part> Engine::parts(std::vector<Sequence*> candidates, std::int64_t budget) const {
  if (candidates.front()->reports())
    return {{candidates.front(), std::min({candidates.front()->unread(), options_.reports, budget})}};
  std::erase_if(candidates, [](const Sequence* s) { return s->reports(); });
  std::vector<Part> out;
  auto give = [&](Sequence* s, std::int64_t most) {
    const std::int64_t tokens = std::min(s->unread(), most);
    if (tokens <= 0) return;
    budget -= tokens;
    out.push_back({s, tokens});
  };
  give(candidates.front(), candidates.size() == 1 ? budget : std::max<std::int64_t>(1, budget / 2));
  std::stable_sort(candidates.begin() + 1, candidates.end(),
                   [](const Sequence* a, const Sequence* b) { return a->unread() < b->unread(); });
  for (std::size_t i = 1; i < candidates.size() && budget > 0; ++i) give(candidates[i], budget);
  const std::int64_t more = std::min(budget, candidates.front()->unread() - out.front().tokens);
  out.front().tokens += more;
  return out;
}

void Engine::reserve(Sequence& s, std::int64_t tokens) {
  const std::int64_t held = std::ssize(s.cache.table()),
                     ahead = std::min(KvPool::pages_of(s.longest), held + kPagesAhead);
  if (KvPool::pages_of(tokens) <= held) return;
  if (KvPool::pages_of(tokens) <= ahead && ahead - held <= pool_.free())
    return s.cache.reserve(ahead * KvPool::kTokens);
  while (pool_.free() < KvPool::pages_of(tokens) - held) DML_CHECK(prefixes_.evict());
  s.cache.reserve(tokens);
}

}  // namespace dml
