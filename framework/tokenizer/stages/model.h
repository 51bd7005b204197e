// The model of a tokenizer: words to ids, after normalization and splitting.
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

/// A bounded, direct-mapped cache of the ids of words, one cache line per word. Not thread-safe.
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

/// Working memory of an encode call, pooled by the tokenizer.
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
  std::size_t steps = 0;  // number of merges examined, for tests of linear complexity
};

/// In bytes. A longer part of a text is split where this does not change the result; beyond kMaxUnsplitBytes without
/// such a position it is an error, since models need 20 to 50 bytes of memory per byte.
inline constexpr std::size_t kLongPart = std::size_t{64} << 10, kMaxUnsplitBytes = std::size_t{1} << 20;
[[noreturn]] void throw_too_long();

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of a word; offsets are `base` + byte offsets in the word.
  virtual void encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const = 0;

  Vocabulary vocabulary;
};

inline void put(Encoding& out, Token id, std::uint32_t begin, std::uint32_t end) {
  out.ids.push_back(id);
  out.offsets.push_back({begin, end});
}

/// The ids of "<0x00>" … "<0xFF>"; -1 if the vocabulary lacks one.
std::vector<Token> byte_fallback_ids(const Vocabulary& vocabulary);

}  // namespace dml
