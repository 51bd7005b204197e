// The engine's calls on the model: rows that read prompts, rows that write answers, and sampling from their logits.
#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "generate/engine.h"
#include "generate/sequence.h"

namespace dml {

void Engine::read(std::span<const Part> parts) {
  tokens_.clear();
  positions_.clear();
  rows_.clear();
  std::int64_t outputs = 0;
  for (auto [s, count] : parts) {
    const std::int64_t known = s->cache.length();
    reserve(*s, known + count);
    const std::int64_t wanted = s->reports() ? count : count == s->unread() && s->answers() ? 1 : 0;
    rows_.push_back({&s->cache, std::ssize(tokens_), count, wanted, std::ssize(s->text), model_of(*s).adapter});
    for (std::int64_t t = known; t < known + count; ++t) {
      tokens_.push_back(s->text[static_cast<std::size_t>(t)]);
      positions_.push_back(static_cast<std::int32_t>(t));
    }
    outputs += wanted;
  }
  CausalLm& model = *model_of(*parts[0].sequence).base;
  const PackedBatch batch{tokens_, {}, positions_, {}};
  if (parts[0].sequence->request.embedding) model.embed(batch, rows_, {states_.data(), outputs, model.spec.hidden});
  else model.generate(batch, rows_, {logits_.data(), outputs, model.spec.vocab}, kernels::RowMethod::packed);

  std::vector<Sequence*> ready;
  std::vector<std::int64_t> rows;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Sequence& s = *parts[i].sequence;
    const std::int64_t wanted = rows_[i].outputs, last = at + wanted - 1;
    prefixes_.add(s.root, std::span(s.text).first(static_cast<std::size_t>(s.cache.length())), s.cache.table());
    finish_part(s, parts[i].tokens, wanted, at);
    at += wanted;
    if (s.unread() > 0) continue;
    s.reading = false;
    if (s.written() == 0) {
      speed_.prompt_tokens += std::ssize(s.request.prompt);
      speed_.cached_tokens += s.cached;
      events_.push_back(
          {.id = s.id, .kind = EngineEvent::Kind::read, .cached = s.cached, .prompt = std::move(s.reported)});
    }
    if (!s.answers()) {
      end(s, StopReason::length);
      continue;
    }
    ready.push_back(&s);
    rows.push_back(last);
  }
  take_tokens(ready, rows);
}

// Stores the requested results of the rows just read; row `row` of the outputs is the first of them.
void Engine::finish_part(Sequence& s, std::int64_t tokens, std::int64_t outputs, std::int64_t row_number) {
  if (!s.reports()) return;
  DML_CHECK(outputs == tokens);
  const std::int64_t hidden = models_[0].base->spec.hidden, first = s.cache.length() - tokens;
  if (s.request.embedding) s.mean.resize(static_cast<std::size_t>(hidden), 0);
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t next = first + i + 1;
    if (s.request.embedding) {
      const float* state = states_.data() + (row_number + i) * hidden;
      for (std::int64_t d = 0; d < hidden; ++d) s.mean[static_cast<std::size_t>(d)] += state[d];
    } else if (next < std::ssize(s.text)) {
      s.reported.push_back(Sampler::report(row(s, row_number + i), s.text[static_cast<std::size_t>(next)],
                                           s.request.sampling.top_logprobs));
    }
  }
}

// Drafts the tokens that a constraint leaves no choice for, computed in the same call. The sampler decides row by row,
// so the answer equals that of one token per call.
std::vector<Token> Engine::draft(const Sequence& s, std::int64_t most) const {
  const std::int64_t size = std::ssize(s.text);
  most = std::min(most, s.longest - size - 1);
  if (!s.request.constraint || most <= 0) return {};
  std::vector<Token> tokens;
  try {
    tokens = s.request.constraint->only_continuation(s.so_far, static_cast<std::size_t>(most));
  } catch (const Error&) {  // text further on is too ambiguous: an answer that gets there ends in take_tokens()
    return {};
  }
  const CausalLm& model = *model_of(s).base;
  tokens.erase(std::ranges::find_if(tokens, [&](Token t) { return t >= model.spec.vocab; }), tokens.end());
  const std::int64_t last = size + std::ssize(tokens);
  if (model.cache_expires(size, last) || model.angles_of(size) != model.angles_of(last)) return {};
  return tokens;
}

void Engine::write(std::span<Sequence* const> which) {
  tokens_.clear();
  positions_.clear();
  rows_.clear();
  std::vector<Written> written;
  CausalLm& model = *model_of(*which[0]).base;
  std::int64_t ahead = options_.drafts;
  for (Sequence* s : which) {
    const std::int64_t known = s->cache.length();
    if (model.cache_expires(known, std::ssize(s->text))) {  // the whole text is read again, with the angles it has now
      s->cache.clear();
      s->reading = true;
      s->root = root_of(*s);
      continue;
    }
    written.push_back({s->id, s, std::ssize(tokens_), draft(*s, ahead)});
    const std::vector<Token>& draft = written.back().draft;
    const std::int64_t count = 1 + std::ssize(draft);
    ahead -= std::ssize(draft);
    reserve(*s, known + count);
    rows_.push_back({.cache = &s->cache,
                     .first = std::ssize(tokens_),
                     .count = count,
                     .outputs = count,
                     .adapter = model_of(*s).adapter});
    for (std::int64_t i = 0; i < count; ++i) {
      tokens_.push_back(i == 0 ? s->text.back() : draft[static_cast<std::size_t>(i - 1)]);
      positions_.push_back(static_cast<std::int32_t>(known + i));
    }
  }
  if (written.empty()) return;
  model.generate({tokens_, {}, positions_, {}}, rows_, {logits_.data(), std::ssize(tokens_), model.spec.vocab},
                 kernels::RowMethod::dots);
  take_written(std::move(written));
}

// Takes a token of each sequence, then the draft's tokens as far as the sampler agrees.
void Engine::take_written(std::vector<Written> written) {
  for (std::size_t round = 0; !written.empty(); ++round) {
    std::vector<Sequence*> which;
    std::vector<std::int64_t> rows;
    for (const Written& w : written) {
      which.push_back(w.sequence);
      rows.push_back(w.row + static_cast<std::int64_t>(round));
    }
    speed_.new_tokens += std::ssize(which);
    speed_.drafted += round > 0 ? std::ssize(which) : 0;
    take_tokens(which, rows);
    std::erase_if(written, [&](const Written& w) {
      if (!sequences_.contains(w.id)) return true;  // the request has ended
      if (round < w.draft.size() && w.sequence->text.back() == w.draft[round]) return false;
      w.sequence->cache.truncate(std::ssize(w.sequence->text) - 1);
      return true;
    });
  }
}

void Engine::take_tokens(std::span<Sequence* const> which, std::span<const std::int64_t> rows) {
  std::vector<std::optional<Sampler::Choice>> choices(which.size());
  std::vector<std::exception_ptr> failures(which.size());
  std::vector<char> open(which.size(), 0);
  for (std::size_t i = 0; i < which.size(); ++i) try {  // constraints are shared by requests
      open[i] = which[i]->allow(vocabulary_of(*which[i]));
    } catch (const Error&) {
      failures[i] = std::current_exception();
    }
  parallel_for(std::ssize(which), [&](std::int64_t task) {
    const auto i = static_cast<std::size_t>(task);
    Sequence& s = *which[i];
    if (!open[i]) return;
    try {
      choices[i] = s.sampler.sample(row(s, rows[i]), s.text, s.request.number, static_cast<std::uint64_t>(s.written()),
                                    s.allowed);
    } catch (const Error&) {
      failures[i] = std::current_exception();
    }
  });
  for (std::size_t i = 0; i < which.size(); ++i)
    if (failures[i]) end(*which[i], StopReason::failure, failures[i]);
    else if (!choices[i]) end(*which[i], StopReason::token);
    else take(*which[i], std::move(*choices[i]));
}

void Engine::take(Sequence& s, Sampler::Choice choice) {
  const Token token = choice.token;
  if (std::ranges::find(s.request.stop_tokens, token) != s.request.stop_tokens.end())
    return end(s, StopReason::token, {}, std::move(choice));
  try {
    s.accept(token);
  } catch (const Error&) {
    return end(s, StopReason::failure, std::current_exception());
  }
  ++speed_.generated;
  events_.push_back({.id = s.id, .kind = EngineEvent::Kind::token, .choice = std::move(choice)});
  if (std::ssize(s.text) >= s.longest) end(s, StopReason::length);
}

}  // namespace dml
