#include "exchange/gguf_vocabulary_check.h"

#include <algorithm>

#include "core/log.h"
#include "core/utf8.h"
#include "tokenizer/sentencepiece_model.h"

namespace dml {

void warn_of_other_merges(const Pipeline& tokenizer, const GgufVocabulary& vocabulary, const std::string& source) {
  SentencePieceModel model;
  model.bpe = model.byte_fallback = vocabulary.model == "llama";
  model.add_dummy_prefix = *vocabulary.add_space_prefix;
  model.remove_extra_whitespaces = !model.bpe && *vocabulary.remove_extra_whitespaces;
  model.charsmap = vocabulary.charsmap;
  model.unk = tokenizer.unk.value_or(-1);
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    model.pieces.push_back(
        {vocabulary.tokens[i], vocabulary.scores[i], static_cast<SentencePieceModel::Type>(vocabulary.types[i])});
  const auto scored = make_sentencepiece(model, false, source);
  scored->prepare();
  for (std::string_view text :
       {pre_tokenizer_probe(), std::string_view("Once upon a time, there  was\na little girl.")}) {
    const auto ids = tokenizer.encode(text, {.parse_special = false}).ids;
    if (const auto by_scores = scored->encode(text, {.parse_special = false}).ids; ids != by_scores) {
      const auto at = static_cast<std::size_t>(std::ranges::mismatch(ids, by_scores).in1 - ids.begin());
      log_warning("{}: llama.cpp will split some texts differently: token {} of its test text is '{}' here, '{}' there",
                  source, at, at < ids.size() ? escape_controls(tokenizer.piece(ids[at])) : "",
                  at < by_scores.size() ? escape_controls(scored->piece(by_scores[at])) : "");
      return;
    }
  }
}

void warn_of_added_tokens(const Pipeline& tokenizer, const std::string& source) {
  const std::vector<Token> part = tokenizer.encode("x").ids;
  for (const AddedToken& token : tokenizer.added.all()) {
    std::vector<Token> parts = part;
    parts.push_back(token.id);
    parts.insert(parts.end(), part.begin(), part.end());
    if (tokenizer.encode("x" + token.text + "x").ids == parts) continue;
    log_warning(
        "{}: llama.cpp will tokenize texts with '{}' differently: it takes added tokens out of the text as it is, and "
        "treats what follows like the beginning of a text (it has no prepend_scheme 'first', legacy: false, normalized "
        "or single_word)",
        source, escape_controls(token.text));
    return;
  }
}

}  // namespace dml
