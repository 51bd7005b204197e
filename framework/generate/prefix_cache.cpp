#include "generate/prefix_cache.h"

#include <algorithm>
#include <ranges>

namespace dml {

std::size_t PrefixCache::Hash::operator()(const Key& key) const {
  std::uint64_t h = key.before * 0x9E3779B97F4A7C15u;
  for (Token t : key.tokens) h = (h ^ static_cast<std::uint32_t>(t)) * 0x100000001B3u;
  return static_cast<std::size_t>(h ^ h >> 32);
}

PrefixCache::Key PrefixCache::key_of(std::uint64_t before, std::span<const Token> text, std::size_t page) {
  Key key{before, {}};
  std::ranges::copy(text.subspan(page * KvPool::kTokens, KvPool::kTokens), key.tokens.begin());
  return key;
}

// Marks pages as used, the last one first, so that a page is always more recent than those that follow it.
void PrefixCache::touch(std::vector<Known*>& path) {
  for (Known* known : path | std::views::reverse) used_.splice(used_.begin(), used_, known->used);
}

std::vector<KvPool::Page> PrefixCache::find(std::uint64_t root, std::span<const Token> text) {
  std::vector<KvPool::Page> pages;
  std::vector<Known*> path;
  for (std::size_t page = 0; (page + 1) * KvPool::kTokens <= text.size(); ++page) {
    auto found = known_.find(key_of(root, text, page));
    if (found == known_.end()) break;
    path.push_back(&found->second);
    pages.push_back(found->second.page);
    root = found->second.serial;
  }
  touch(path);
  return pages;
}

void PrefixCache::add(std::uint64_t root, std::span<const Token> text, std::span<const KvPool::Page> table) {
  std::vector<Known*> path;
  for (std::size_t page = 0; (page + 1) * KvPool::kTokens <= text.size() && page < table.size(); ++page) {
    const Key key = key_of(root, text, page);
    auto [at, fresh] = known_.try_emplace(key);
    if (fresh) {
      used_.push_front(key);
      at->second = {table[page], ++last_serial_, used_.begin()};
      pool_.share(table[page]);
    }
    path.push_back(&at->second);
    root = at->second.serial;
  }
  touch(path);
}

bool PrefixCache::evict() {
  for (auto at = used_.rbegin(); at != used_.rend(); ++at) {
    auto found = known_.find(*at);
    if (pool_.users(found->second.page) > 1) continue;
    pool_.release(found->second.page);
    used_.erase(found->second.used);
    known_.erase(found);
    return true;
  }
  return false;
}

}  // namespace dml
