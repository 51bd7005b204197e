// A trie that finds all keys at a position of a text. Edges are in one hash table, so a node with one child takes 12
// bytes and hostile keys cost no more than ordinary ones.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace dml {

class ByteTrie {
 public:
  /// Adds a key, or replaces its value.
  void add(std::string_view key, std::int32_t value);
  bool empty() const { return values_.size() == 1; }

  /// Calls found(length, value) for every key that is a prefix of the text, shortest first.
  template <class F>
  void prefixes(std::string_view text, F&& found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (values_[node] != kNone) found(i + 1, values_[node]);
    }
  }
  /// Whether some key begins with this byte.
  bool starts_key(unsigned char byte) const { return starts_key_[byte]; }

 private:
  static constexpr std::int32_t kNone = INT32_MIN;
  struct Edge {
    std::uint64_t key = 0;
    std::uint32_t node = 0;
  };  // key = parent << 8 | byte, plus one; 0 is free
  static std::size_t slot(std::uint64_t key, std::size_t size) {
    return (key * 0x9E3779B97F4A7C15u) >> 20 & (size - 1);
  }
  std::uint32_t child(std::uint32_t parent, unsigned char byte) const {
    std::uint64_t key = ((static_cast<std::uint64_t>(parent) << 8) | byte) + 1;
    for (std::size_t at = slot(key, edges_.size());; at = (at + 1) & (edges_.size() - 1)) {
      if (edges_[at].key == key) return edges_[at].node;
      if (edges_[at].key == 0) return 0;
    }
  }
  std::vector<Edge> edges_ = std::vector<Edge>(64);
  std::vector<std::int32_t> values_ = {kNone};  // by node; node 0 is the root
  bool starts_key_[256] = {};
};

}  // namespace dml
