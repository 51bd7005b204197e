// The rule by which the tokens of an answer become its text, for answers of dml infer, dml serve and evaluations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace dml {

/// Decodes one answer token by token.
class AnswerText : public StreamDecoder {
 public:
  struct Options {
    bool continued = false;  // the answer continues the text of its prompt
    bool space = false;      // the template writes a space before answers, which is removed
    bool specials = false;   // special tokens are printed
  };
  AnswerText(const Tokenizer& tokenizer, const std::vector<Token>& prompt, const Options& options);

  std::string next(Token id) override { return shown(decoder_->next(id)); }
  std::string finish() override { return shown(decoder_->finish()); }

 private:
  std::string shown(std::string piece);

  std::unique_ptr<StreamDecoder> decoder_;
  bool drop_space_;
};

}  // namespace dml
