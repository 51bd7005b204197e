#include "generate/decoding.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
Decoding::Decoding(CausalLm& model, std::span<const std::vector<Token>> prompts, const GenerationOptions& options,
                   std::size_t together)
    : model_(model), vocab_(model.spec.vocab), dtype_(options.cache) {
  std::int64_t longest = 0;
  for (auto& prompt : prompts) {
    DML_CHECK(!prompt.empty());
    sequences.push_back({std::nullopt, prompt, std::ssize(prompt) + options.longest_answer(prompt.size())});
    longest = std::max(longest, sequences.back().longest);
  }
  if (model.length() < longest) model.set_length(longest);
  logits_.resize(std::min(together, prompts.size()) * static_cast<std::size_t>(vocab_));
}

void Decoding::begin(std::span<const std::size_t> fresh, std::span<const std::size_t> others) {
  const std::size_t need = measure(fresh, others);
  if (model_.reserved() < need) model_.reserve(need);
}

std::size_t Decoding::measure(std::span<const std::size_t> fresh, std::span<const std::size_t> others) {
  const ModelSpec& spec = model_.spec;
  std::vector<std::size_t> all(others.begin(), others.end());
  all.insert(all.end(), fresh.begin(), fresh.end());
  std::vector<std::int64_t> lengths;
  for (std::size_t i : all) {
    Sequence& s = sequences[i];
    if (!s.cache) s.cache.emplace(spec.layers, spec.kv_heads, spec.head_dim, s.longest, dtype_);
    lengths.push_back(s.cache->length());
  }
  const std::size_t need = model_.measure_calls([&] {
    call(fresh, false);
    call(all, true);
    for (std::size_t i : all) measure_again(i);
  });
  for (std::size_t i = 0; i < all.size(); ++i) sequences[all[i]].cache->truncate(lengths[i]);
  return need;
}

bool Decoding::expired(const Sequence& s) const {
  const std::int64_t known = s.cache->length();
  return known > 0 && model_.cache_expires(known, std::ssize(s.text));
}

// Expired caches are filled again one by one: all at once would take memory for as many whole texts.
void Decoding::read(std::span<const std::size_t> which) {
  for (std::size_t first = 0, last = 0; first < which.size(); first = last) {
    last = first + 1;
    if (expired(sequences[which[first]])) sequences[which[first]].cache->truncate(0);
    else
      while (last < which.size() && !expired(sequences[which[last]])) ++last;
    call(which.subspan(first, last - first), false, first);
  }
}

// The memory of filling a cache again at the length where it expires, if the text can grow to it.
void Decoding::measure_again(std::size_t sequence) {
  Sequence& s = sequences[sequence];
  const std::int64_t now = std::ssize(s.text);
  if (!model_.cache_expires(now, s.cache->capacity())) return;
  std::int64_t then = now;
  while (!model_.cache_expires(now, then)) ++then;
  std::vector<Token> text(static_cast<std::size_t>(then), 0);
  s.cache->truncate(0);
  s.text.swap(text);
  call({&sequence, 1}, false);
  s.text.swap(text);
}

// `full`: for measuring, one token for each sequence, the cache being full but for that. Both leave the caches longer.
void Decoding::call(std::span<const std::size_t> which, bool full, std::size_t row) {
  tokens_.clear();
  positions_.clear();
  rows_.clear();
  for (std::size_t i : which) {
    Sequence& s = sequences[i];
    KvCache& cache = *s.cache;
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
