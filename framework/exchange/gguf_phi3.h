// White space behind special tokens. A GGUF file has no such flag of a token: llama.cpp drops the white space behind
// the special tokens of models whose general.name says Phi-3, and of no others (llama-vocab.cpp).
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "exchange/gguf_vocabulary.h"

namespace dml {

/// The tokens behind which llama.cpp strips white space, in a model with this general.name.
std::set<Token> stripping_tokens(const GgufVocabulary& vocabulary, std::string_view model_name);

/// The general.name with which llama.cpp treats white space as the vocabulary's tokenizer does: `name`, or "Phi-3 "
/// and it. A warning, which names `source`, where no name does.
std::string name_for_stripping(const GgufVocabulary& vocabulary, const std::string& name, const std::string& source);

}  // namespace dml
