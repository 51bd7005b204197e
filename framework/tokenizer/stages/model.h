// The heart of a tokenizer: a word becomes ids. Normalizing and splitting happened before.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/text/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// Ids of words seen before, one cache line each: a bounded, direct-mapped table. One thread at a time uses it.
class WordCache {
 public:
  static constexpr std::uint32_t kMaxWord = 32, kMaxIds = 6;
  struct alignas(64) Slot {
    std::uint64_t key[4];  // the word, padded with zeros
    std::int32_t ids[kMaxIds];
    std::uint8_t ends[kMaxIds];  // of each id within the word
    std::uint8_t length, count;  // length 0: free
  };
  static_assert(sizeof(Slot) == 64);

  Slot& slot(const std::uint64_t (&key)[4], std::uint32_t length);

 private:
  static constexpr std::size_t kSlots = std::size_t{1} << 15;  // 2 MB
  std::vector<Slot> slots_;
};

/// Working memory of one encode call; kept by the tokenizer and lent out.
struct ModelScratch {
  struct Symbol {
    Token id;
    std::uint32_t begin, end;
    std::int32_t previous, next;
  };
  struct Candidate {
    std::uint32_t rank, position;
    Token id;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<std::array<Token, 3>> unused;  // SentencePiece: unused piece, and the two it was made from
  std::vector<double> best;
  std::vector<std::int32_t> best_id;
  std::vector<std::uint32_t> best_start;
  WordCache cache;
  std::size_t steps = 0;  // merges looked at: tests see from it that work is linear
};

/// Bytes. A longer stretch of text is cut where that makes no difference, and one that has no such place is refused:
/// what a model keeps for each byte of a stretch is twenty to fifty bytes.
inline constexpr std::size_t kLongPart = std::size_t{64} << 10, kMaxUnsplitBytes = std::size_t{1} << 20;
[[noreturn]] void throw_too_long();

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of one word; offsets are `base` + byte places within the word.
  virtual void encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const = 0;

  Vocabulary vocabulary;
};

inline void put(Encoding& out, Token id, std::uint32_t begin, std::uint32_t end) {
  out.ids.push_back(id);
  out.offsets.push_back({begin, end});
}

/// "<0x41>": the id of every byte, -1 where the vocabulary has none.
std::vector<Token> byte_fallback_ids(const Vocabulary& vocabulary);

}  // namespace dml
