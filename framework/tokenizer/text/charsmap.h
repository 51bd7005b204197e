// SentencePiece's precompiled character map: a double-array trie (Darts) from byte sequences to places in a block of
// NUL-ended replacement texts. Layout: u32 size of the trie in bytes, the trie's units, the block. Walked once, with
// every index checked, before it is ever used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

class Charsmap {
 public:
  Charsmap() = default;
  /// UserError naming `where` when it is damaged.
  Charsmap(std::string_view blob, std::string_view where);
  bool empty() const { return units_.empty(); }

  struct Match {
    std::size_t length = 0;
    std::string_view replacement;
  };
  /// The longest (or the shortest) key that text begins with; length 0 when there is none.
  Match find(std::string_view text, bool shortest) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string block_;
};

}  // namespace dml
