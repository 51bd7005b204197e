// Pages of keys and values that begin texts already read, so that the next text with the same beginning need not read
// it again: system prompts, samples of one prompt, turns of a conversation.
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

/// A tree of pages: a page is known by the page before it and its own tokens, so equal pages are equal texts. Holds a
/// share of each page until it is evicted.
class PrefixCache {
 public:
  explicit PrefixCache(KvPool& pool) : pool_(pool) {}

  /// The pages of the longest known beginning of `text`. `root`: texts with different roots share nothing.
  std::vector<KvPool::Page> find(std::uint64_t root, std::span<const Token> text);
  /// The whole pages of a text that has been read: page i of `table` holds its tokens from i · KvPool::kTokens on.
  void add(std::uint64_t root, std::span<const Token> text, std::span<const KvPool::Page> table);
  /// Gives the page back that was used longest ago and that no sequence reads. False where there is none.
  bool evict();
  /// Pages that evict() can give back.
  std::int64_t idle() const;

 private:
  struct Key {
    std::uint64_t before;  // serial of the page before, or the root
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
  std::list<Key> used_;  // most recently first; a page never after the pages that follow it
  std::uint64_t last_serial_ = std::uint64_t{1} << 32;  // roots are below
};

}  // namespace dml
