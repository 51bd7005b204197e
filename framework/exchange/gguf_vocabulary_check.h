// Whether llama.cpp will give a text the tokens that the model's own tokenizer gives it: tries both on sample texts and
// warns of the first difference.
#pragma once

#include <string>

#include "exchange/gguf_vocabulary.h"
#include "tokenizer/pipeline.h"

namespace dml {

/// Warns when encoding by scores, as llama.cpp does with "llama" and "t5", gives other tokens. Names `source`.
void warn_of_other_merges(const Pipeline& tokenizer, const GgufVocabulary& vocabulary, const std::string& source);

/// Warns when the text around an added token is encoded otherwise than by itself. llama.cpp first takes all added
/// tokens out of a text and then encodes the parts. Names `source`.
void warn_of_added_tokens(const Pipeline& tokenizer, const std::string& source);

}  // namespace dml
