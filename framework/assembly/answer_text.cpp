#include "assembly/answer_text.h"

namespace dml {

// A text that is continued is decoded with its prompt: whether its first word has a space in front depends on it. An
// answer is decoded alone, as by transformers' decode() of the new ids.
AnswerText::AnswerText(const Tokenizer& tokenizer, const std::vector<Token>& prompt, const Options& options)
    : decoder_(tokenizer.stream(!options.specials)), drop_space_(options.space && !options.continued) {
  if (options.continued || options.space)
    for (Token id : prompt) decoder_->next(id);
}

std::string AnswerText::shown(std::string piece) {
  if (drop_space_ && !piece.empty()) {
    if (piece.front() == ' ') piece.erase(0, 1);
    drop_space_ = false;
  }
  return piece;
}

}  // namespace dml
