// Byte-pair encoding: of all neighboring symbols that form a token, the pair of the lowest rank (leftmost first) is
// merged, until none is left.
//
// One engine for three dialects: Hugging Face's (ranks from the list of merges), byte-level (symbols are bytes), and
// SentencePiece's (any pair whose concatenation is a piece, best score first; equal scores share a rank). Short words
// are merged in place, long ones through a heap, O(n log n).
//
// If no token has U+2581 after another character, no merge crosses the beginning of such a mark: text is split there,
// and the parts are looked up in the word cache. A very long part is also split between bytes that are adjacent in no
// merged token, so that the memory for merging is bounded.
#pragma once

#include <array>
#include <bitset>
#include <mutex>
#include <string>
#include <vector>

#include "tokenizer/stages/model.h"
#include "tokenizer/text/byte_trie.h"

namespace dml {

class Bpe : public Model {
 public:
  struct Options {
    bool byte_level = false;  // words are bytes; the vocabulary spells them in GPT-2's byte alphabet
    bool byte_fallback = false, fuse_unk = false, ignore_merges = false;
    bool sentencepiece = false;  // unknown characters stay symbols while merging; runs of unknown become one
    Token unk = -1;
    std::string continuing_prefix, word_suffix;
  };

  /// Adds a merge of two tokens to a third, or replaces that of the same pair.
  void add_merge(Token left, Token right, std::uint32_t rank, Token merged);
  void reserve_merges(std::size_t count);
  /// SentencePiece: a user-defined piece, which is matched first and never merged.
  void add_unmergeable(std::string_view piece, Token id) { unmergeable_.add(piece, id); }
  /// SentencePiece: a piece that is used in merging but not in the output, where its two parts take its place.
  void mark_unused(Token id) { unused_.resize(std::max<std::size_t>(unused_.size(), id + 1)), unused_[id] = true; }
  /// To be called once, after vocabulary and merges are complete.
  void prepare(const Options& options);

  void encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const override;

  /// The symbol of a text; characters that only occur inside pieces get symbols beyond the vocabulary, which are output
  /// as unknown.
  Token symbol(std::string_view text);

 private:
  struct Merge {
    std::uint64_t key = kFree;
    std::uint32_t rank = 0;
    Token merged = -1;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static std::uint64_t pair_key(Token a, Token b) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
  }
  static std::uint64_t mix(std::uint64_t key) { return (key ^ key >> 29) * 0x9E3779B97F4A7C15u; }
  const Merge* find_merge(Token a, Token b) const;

  void encode_parts(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const;
  void encode_part(std::string_view part, std::uint32_t base, Encoding& out, ModelScratch& scratch) const;
  void merge_part(std::string_view part, std::uint32_t base, Encoding& out, ModelScratch& scratch) const;
  static constexpr std::size_t kShort = 32;  // symbols; more go through the heap
  void merge_range(std::string_view part, std::uint32_t base, Encoding& out, ModelScratch& scratch) const;
  /// The first position after `from` that no merge crosses; the end if there is none.
  std::size_t next_boundary(std::string_view part, std::size_t from) const;
  void find_joined() const;
  void split_symbols(std::string_view part, ModelScratch& scratch) const;
  void merge_short(ModelScratch& scratch) const;
  void merge_long(ModelScratch& scratch) const;
  /// find_merge(); for SentencePiece it also records the parts of an unused piece.
  const Merge* look_up(Token a, Token b, ModelScratch& scratch) const;
  void emit(const ModelScratch::Symbol& s, std::string_view part, std::uint32_t base, Encoding& out,
            const ModelScratch& scratch) const;
  Token char_id(std::string_view character) const;

  Options options_;
  std::vector<Merge> merges_;
  std::size_t merge_count_ = 0;
  int merge_shift_ = 64;
  std::array<Token, 256> byte_ids_{};  // byte-level: the symbol of a byte; else the id of "<0x..>"
  std::vector<Token> char_ids_;        // below U+10000: symbol of a character, -1
  Vocabulary extra_;                   // symbols beyond the vocabulary; ids counted from vocabulary.size()
  ByteTrie unmergeable_;
  std::vector<bool> unused_;
  bool cut_at_marks_ = false;
  mutable std::once_flag long_part_;                  // the first long part initializes the next two members
  mutable std::bitset<std::size_t{1} << 16> joined_;  // [a << 8 | b]: some merged token has b after a
  mutable bool has_boundaries_ = false;
};

}  // namespace dml
