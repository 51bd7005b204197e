#include "generate/decoding.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace dml {
namespace {

constexpr std::size_t kTokensTogether = 512;  // of prompts that share a call: enough for the products' full speed

}  // namespace

Decoding::Decoding(CausalLm& model, std::span<const std::vector<Token>> prompts, std::int64_t max_new_tokens,
                   kernels::Storage cache)
    : model_(model), vocab_(model.spec.vocab) {
  const ModelSpec& spec = model.spec;
  std::int64_t longest = 0;
  for (auto& prompt : prompts) {
    DML_CHECK(!prompt.empty());
    auto capacity = std::ssize(prompt) + max_new_tokens;
    sequences.push_back({KvCache(spec.layers, spec.kv_heads, spec.head_dim, capacity, cache), prompt});
    longest = std::max(longest, capacity);
  }
  if (model.length() < longest) model.set_length(longest);
  logits_.resize(prompts.size() * static_cast<std::size_t>(vocab_));
}

std::vector<std::vector<std::size_t>> Decoding::groups() const {
  std::vector<std::vector<std::size_t>> out;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    std::size_t size = sequences[i].text.size();
    if (out.empty() || tokens + size > kTokensTogether) {
      out.emplace_back();
      tokens = 0;
    }
    out.back().push_back(i);
    tokens += size;
  }
  return out;
}

void Decoding::reserve(std::span<const std::vector<std::size_t>> groups) {
  std::vector<std::size_t> all(sequences.size());
  std::iota(all.begin(), all.end(), 0);
  std::size_t need = model_.measure_calls([&] {
    for (auto& group : groups) call(group, false);
    call(all, true);
  });
  if (model_.reserved() < need) model_.reserve(need);
}

void Decoding::read(std::span<const std::size_t> which) { call(which, false); }

// `full`: for measuring, one token for each sequence, the cache being full but for that.
void Decoding::call(std::span<const std::size_t> which, bool full) {
  tokens_.clear();
  positions_.clear();
  rows_.clear();
  for (std::size_t i : which) {
    Sequence& s = sequences[i];
    if (full) s.cache.advance(s.cache.capacity() - 1);
    std::int64_t known = s.cache.length(), fresh = full ? 1 : std::ssize(s.text) - known;
    DML_CHECK(fresh > 0);
    rows_.push_back({&s.cache, std::ssize(tokens_), fresh});
    for (std::int64_t t = known; t < known + fresh; ++t) {
      tokens_.push_back(full ? 0 : s.text[static_cast<std::size_t>(t)]);
      positions_.push_back(static_cast<std::int32_t>(t));
    }
  }
  model_.generate({tokens_, {}, positions_, {}}, rows_, {logits_.data(), std::ssize(which), vocab_});
  if (full)
    for (std::size_t i : which) sequences[i].cache.truncate(0);
}

}  // namespace dml
