// A request in progress.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "generate/engine.h"

namespace dml {

struct Engine::Sequence {
  Sequence(RequestId number, EngineRequest given, std::int64_t vocabulary, KvPool& pool)
      : id(number),
        request(std::move(given)),
        sampler(request.sampling, vocabulary),
        cache(pool),
        text(request.prompt) {
    if (request.constraint) so_far = request.constraint->start();
  }

  RequestId id;
  EngineRequest request;
  Sampler sampler;
  KvCache cache;
  std::vector<Token> text;   // prompt and generated tokens
  std::int64_t longest = 0;  // maximum number of tokens of the text
  bool reading = true, begun = false;
  std::uint64_t root = 0;  // texts with the same root may share pages
  std::int64_t cached = 0;
  TokenConstraint::Text so_far{};
  TokenSet allowed;                       // tokens that the constraint allows next; empty without one
  std::vector<Sampler::Choice> reported;  // log-probabilities of the prompt's tokens
  std::vector<double> mean;               // sum of the hidden states; divided by their number at the end

  std::int64_t written() const { return std::ssize(text) - std::ssize(request.prompt); }
  std::int64_t unread() const { return std::ssize(text) - cache.length(); }
  bool reports() const { return request.embedding || (request.report_prompt && written() == 0); }
  bool answers() const { return std::ssize(text) < longest; }
  bool may_share() const { return !reports(); }

  /// Sets `allowed`. Returns false when the text is complete and nothing can follow.
  bool allow(std::int64_t vocabulary) {
    if (!request.constraint) return true;
    const TokenSet& next = request.constraint->allowed(so_far);
    allowed.assign((static_cast<std::size_t>(vocabulary) + 63) / 64, 0);
    std::ranges::copy_n(next.begin(), std::min(std::ssize(next), std::ssize(allowed)), allowed.begin());
    const bool continues = std::ranges::any_of(allowed, [](std::uint64_t bits) { return bits != 0; });
    const bool ends = request.constraint->may_end(so_far);
    if (!continues && !ends) throw UserError("no token of the vocabulary continues the text as the constraint demands");
    for (Token stop : request.stop_tokens)
      if (ends) allowed[static_cast<std::size_t>(stop) / 64] |= std::uint64_t{1} << stop % 64;
    return continues;
  }
  void accept(Token token) {
    if (request.constraint) so_far = request.constraint->after(so_far, token);
    text.push_back(token);
  }
};

}  // namespace dml
