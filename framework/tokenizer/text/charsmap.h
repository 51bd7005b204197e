// SentencePiece's precompiled character map: a double-array trie (Darts) from byte sequences to offsets in a block of
// NUL-terminated replacement texts. Layout: u32 size of the trie in bytes, the trie's units, the block. The constructor
// traverses the trie and checks every index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

class Charsmap {
 public:
  Charsmap() = default;
  /// Throws UserError naming `where` if the map is damaged.
  Charsmap(std::string_view blob, std::string_view where);
  bool empty() const { return units_.empty(); }

  struct Match {
    std::size_t length = 0;
    std::string_view replacement;
  };
  /// The longest (or shortest) key that is a prefix of the text; length 0 if there is none.
  Match find(std::string_view text, bool shortest) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string block_;
};

}  // namespace dml
