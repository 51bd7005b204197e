#include "generate/beam_caches.h"

#include <numeric>

#include "core/error.h"

namespace dml {

BeamCaches::BeamCaches(CausalLm& model, const std::vector<Token>& prompt, std::size_t width,
                       const GenerationOptions& options)
    : model_(model), vocab_(model.spec.vocab), logits_(width * static_cast<std::size_t>(vocab_)) {
  DML_CHECK(!prompt.empty());
  const ModelSpec& spec = model.spec;
  const std::int64_t longest = std::ssize(prompt) + options.longest_answer(prompt.size());
  for (std::size_t i = 0; i < width; ++i)
    sequences.push_back({KvCache(spec.layers, spec.kv_heads, spec.head_dim, longest, options.cache), prompt});
  if (model.length() < longest) model.set_length(longest);
  const std::size_t need = measure();
  if (model.reserved() < need) model.reserve(need);
}

std::size_t BeamCaches::measure() {
  std::vector<std::size_t> all(sequences.size());
  std::iota(all.begin(), all.end(), 0);
  const std::size_t need = model_.measure_calls([&] {
    call(std::span(all).first(1), false);
    call(all, true);
    measure_again(0);
  });
  for (Sequence& s : sequences) s.cache.truncate(0);
  return need;
}

// Expired caches are filled again one by one: all at once would take memory for as many whole texts.
void BeamCaches::read(std::span<const std::size_t> which) {
  const Sequence& first = sequences[which[0]];
  const std::int64_t known = first.cache.length();
  if (known == 0 || !model_.cache_expires(known, std::ssize(first.text))) return call(which, false);
  for (std::size_t row = 0; row < which.size(); ++row) {
    sequences[which[row]].cache.truncate(0);
    call(which.subspan(row, 1), false, row);
  }
}

// The memory of filling a cache again at the length where it expires, if the text can grow to it.
void BeamCaches::measure_again(std::size_t sequence) {
  Sequence& s = sequences[sequence];
  const std::int64_t now = std::ssize(s.text);
  if (!model_.cache_expires(now, s.cache.capacity())) return;
  std::int64_t then = now;
  while (!model_.cache_expires(now, then)) ++then;
  std::vector<Token> text(static_cast<std::size_t>(then), 0);
  s.cache.truncate(0);
  s.text.swap(text);
  call({&sequence, 1}, false);
  s.text.swap(text);
}

// `full`: for measuring, one token for each sequence, the cache being full but for that. Both leave the caches longer.
void BeamCaches::call(std::span<const std::size_t> which, bool full, std::size_t row) {
  tokens_.clear();
  positions_.clear();
  rows_.clear();
  for (std::size_t i : which) {
    Sequence& s = sequences[i];
    KvCache& cache = s.cache;
    std::int64_t known = full ? cache.capacity() - 1 : cache.length(), fresh = full ? 1 : std::ssize(s.text) - known;
    DML_CHECK(fresh > 0);
    if (full) cache.advance(known - cache.length());
    rows_.push_back({&cache, std::ssize(tokens_), fresh});
    for (std::int64_t t = known; t < known + fresh; ++t) {
      tokens_.push_back(full ? 0 : s.text[static_cast<std::size_t>(t)]);
      positions_.push_back(static_cast<std::int32_t>(t));
    }
  }
  model_.generate({tokens_, {}, positions_, {}}, rows_, {logits(row).data(), std::ssize(which), vocab_});
}

}  // namespace dml
