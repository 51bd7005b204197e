#include "generate/decoding.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
namespace {

constexpr std::size_t kTokensTogether = 512;  // of prompts that share a call: enough for the products' full speed

}  // namespace

Decoding::Decoding(CausalLm& model, std::span<const std::vector<Token>> prompts, std::int64_t max_new_tokens,
                   kernels::Storage cache, std::size_t together)
    : model_(model), vocab_(model.spec.vocab), max_new_tokens_(max_new_tokens), storage_(cache) {
  std::int64_t longest = 0;
  for (auto& prompt : prompts) {
    DML_CHECK(!prompt.empty());
    sequences.push_back({std::nullopt, prompt});
    longest = std::max(longest, std::ssize(prompt) + max_new_tokens);
  }
  if (model.length() < longest) model.set_length(longest);
  logits_.resize(std::min(together, prompts.size()) * static_cast<std::size_t>(vocab_));
}

std::size_t Decoding::readable(std::size_t next, std::size_t most) const {
  std::size_t count = 0, tokens = 0;
  while (count < most && next + count < sequences.size()) {
    tokens += sequences[next + count].text.size();
    if (count > 0 && tokens > kTokensTogether) break;
    ++count;
  }
  return count;
}

void Decoding::begin(std::span<const std::size_t> fresh, std::span<const std::size_t> others) {
  const ModelSpec& spec = model_.spec;
  std::vector<std::size_t> all(others.begin(), others.end());
  all.insert(all.end(), fresh.begin(), fresh.end());
  std::vector<std::int64_t> lengths;
  for (std::size_t i : all) {
    Sequence& s = sequences[i];
    if (!s.cache)
      s.cache.emplace(spec.layers, spec.kv_heads, spec.head_dim, std::ssize(s.text) + max_new_tokens_, storage_);
    lengths.push_back(s.cache->length());
  }
  std::size_t need = model_.measure_calls([&] {
    call(fresh, false);
    call(all, true);
  });
  for (std::size_t i = 0; i < all.size(); ++i) sequences[all[i]].cache->truncate(lengths[i]);
  if (model_.reserved() < need) model_.reserve(need);
}

void Decoding::read(std::span<const std::size_t> which) { call(which, false); }

// `full`: for measuring, one token for each sequence, the cache being full but for that. Both leave the caches longer.
void Decoding::call(std::span<const std::size_t> which, bool full) {
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
  model_.generate({tokens_, {}, positions_, {}}, rows_, {logits_.data(), std::ssize(which), vocab_});
}

}  // namespace dml
