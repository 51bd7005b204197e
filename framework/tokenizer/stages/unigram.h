// Unigram language model: of all ways to cut a text into pieces, the one with the largest sum of scores (Viterbi over
// bytes, at most one piece longest-token back). Hugging Face sums in double, SentencePiece in float: both are kept to,
// since a tie may hang on it.
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
  /// A piece that may be used. `bonus`: a user-defined piece, preferred whatever its score.
  void add_piece(Token id, double score, bool bonus = false);
  /// A piece that no text spells (a special token): only its score counts, for that of unknown characters.
  void count_score(double score);
  void prepare(const Options& options);

  void encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const override;

 private:
  /// Fills the best way to every place of the word's first bytes, `before` being the score of what is before it;
  /// gives how many these are: all, or up to a place that no piece crosses.
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
