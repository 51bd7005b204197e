// Unigram language model: of all segmentations of a text into pieces, the one with the largest sum of scores (Viterbi
// over bytes, looking back at most the length of the longest piece). Hugging Face sums in double, SentencePiece in
// float; both are supported, since ties depend on it.
#pragma once

#include <limits>
#include <vector>

#include "tokenizer/stages/model.h"
#include "tokenizer/text/byte_trie.h"

namespace dml {

class Unigram : public Model {
 public:
  struct Options {
    Token unk = -1;
    bool byte_fallback = false;
    bool sentencepiece = false;  // float sums
  };
  /// Adds a piece. `bonus`: a user-defined piece, preferred whatever its score.
  void add_piece(Token id, double score, bool bonus = false);
  /// A piece that is not matched in texts (a special token); its score affects only that of unknown characters.
  void count_score(double score);
  void prepare(const Options& options);

  void encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const override;

 private:
  /// Computes the best segmentation up to every position of the word's first bytes; `before` is the score of the text
  /// before the word. Returns the number of these bytes: all, or up to a position that no piece crosses.
  template <class Real>
  std::size_t search(std::string_view word, double before, ModelScratch& scratch) const;
  void put_path(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const;

  Options options_;
  ByteTrie trie_;
  std::vector<double> scores_;
  std::vector<bool> bonus_;
  std::vector<Token> byte_ids_;
  double lowest_ = 0;
  double highest_ = std::numeric_limits<float>::min();  // not lower: so it is in SentencePiece
  bool any_ = false;
};

}  // namespace dml
