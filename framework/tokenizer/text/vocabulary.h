// A bidirectional map of spellings and ids. Spellings are in one block of memory; look-up uses open addressing over
// ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/packed_batch.h"

namespace dml {

inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 21;
inline constexpr std::size_t kMaxTokenBytes = std::size_t{64} << 10;
inline constexpr std::string_view kSpaceMark = "\u2581";  // as which SentencePiece spells a space

class Vocabulary {
 public:
  /// Returns false if the spelling exists already. The id must be in [0, kMaxVocabulary) and unused.
  bool add(std::string_view spelling, Token id);
  bool has(Token id) const { return id >= 0 && id < size() && spans_[id].first != kNone; }
  /// "" for an id that has no spelling.
  std::string_view spelling(Token id) const;
  /// -1 if there is none.
  Token find(std::string_view spelling) const;
  /// One more than the largest id.
  Token size() const { return static_cast<Token>(spans_.size()); }
  std::size_t count() const { return count_; }
  void reserve(std::size_t tokens, std::size_t bytes);

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  struct Span {
    std::uint32_t first = kNone, length = 0;
  };
  void grow();
  std::string block_;
  std::vector<Span> spans_;
  std::vector<Token> slots_;  // id or -1; a power of two, at most half full
  std::size_t count_ = 0;
};

}  // namespace dml
