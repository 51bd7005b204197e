// A tokenizer as a sequence of stages: added tokens are split off, the text between them is normalized and split into
// words, and the model turns words into ids. Every kind of tokenizer file is loaded as a Pipeline.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tokenizer/stages/added_tokens.h"
#include "tokenizer/stages/decoder.h"
#include "tokenizer/stages/model.h"
#include "tokenizer/stages/normalizer.h"
#include "tokenizer/stages/post_processor.h"
#include "tokenizer/stages/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace dml {

class Pipeline : public Tokenizer {
 public:
  AddedTokens added;
  std::unique_ptr<Normalizer> normalizer;  // null: no normalization
  PreTokenizers pre_tokenizer;
  std::unique_ptr<Model> model;
  PostProcessor post_processor;
  std::unique_ptr<Decoder> decoder;  // null: spellings joined with spaces

  /// To be called once, after the last change.
  void prepare();

  void encode_into(Encoding& out, std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const Token> ids, bool skip_special) const override;
  std::unique_ptr<StreamDecoder> stream(bool skip_special) const override;
  Token size() const override { return size_; }
  std::string piece(Token id) const override;
  std::optional<Token> find(std::string_view piece) const override;
  bool is_special(Token id) const override;
  std::string text_bytes(Token id, bool first) const override;

  /// The input of the decoder: piece(), normalized for tokens that are matched in normalized text.
  std::string decoded_piece(Token id) const;
  /// Like encode_into(); returns the number of steps of the model, for tests of its complexity.
  std::size_t encode_counting(Encoding& out, std::string_view text, const EncodeOptions& options) const;

 private:
  struct Lease;  // working memory for one call
  void encode_words(AlignedText& text, Encoding& out, ModelScratch& scratch) const;

  Token size_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<ModelScratch>> idle_;
};

}  // namespace dml
