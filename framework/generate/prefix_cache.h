// Caches the pages of keys and values of texts that were read, so that the next text with the same prefix need not be
// read again: system prompts, samples of one prompt, turns of a conversation.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/packed_batch.h"
#include "nn/kv_cache.h"

namespace dml {

/// A tree of pages: a page is identified by its predecessor and its own tokens, so equal pages mean equal prefixes.
/// Holds a reference to each page until it is evicted.
class PrefixCache {
 public:
  explicit PrefixCache(KvPool& pool) : pool_(pool) {}

  /// The pages of the longest cached prefix of `text`. Texts with different roots share nothing.
  std::vector<KvPool::Page> find(std::uint64_t root, std::span<const Token> text);
  /// Adds the full pages of a text that was read: page i of `table` holds its tokens from i · KvPool::kTokens on.
  void add(std::uint64_t root, std::span<const Token> text, std::span<const KvPool::Page> table);
  /// Evicts the least recently used page that no sequence uses; false if there is none.
  bool evict();

 private:
  struct Key {
    std::uint64_t before;  // serial of the preceding page, or the root
    std::array<Token, KvPool::kTokens> tokens;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Known {
    KvPool::Page page;
    std::uint64_t serial;
    std::list<Key>::iterator used;
  };
  static Key key_of(std::uint64_t before, std::span<const Token> text, std::size_t page);
  void touch(std::vector<Known*>& path);

  KvPool& pool_;
  std::unordered_map<Key, Known, Hash> known_;
  std::list<Key> used_;                                 // most recently used first; a page comes before its successors
  std::uint64_t last_serial_ = std::uint64_t{1} << 32;  // roots are smaller
};

}  // namespace dml
