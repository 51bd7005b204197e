// White space behind special tokens. A GGUF file has no such flag of a token: llama.cpp drops the white space behind
// the special tokens of models whose general.name says Phi-3, and of no others (llama-vocab.cpp). It does not load a
// model of that name that lacks one of Phi-3's tokens.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "exchange/gguf_vocabulary.h"

namespace dml {

/// The tokens behind which llama.cpp strips white space, in a model with this general.name.
std::set<Token> stripping_tokens(const GgufVocabulary& vocabulary, std::string_view model_name);

/// The general.name with which llama.cpp treats white space as the vocabulary's tokenizer does: `name`, "Phi-3 " and
/// it, or `name` with "phi 3" for "phi-3" and "phi3". A warning, which names `source`, where no name does; llama.cpp
/// loads the file under the returned name all the same.
std::string name_for_stripping(const GgufVocabulary& vocabulary, const std::string& name, const std::string& source);

}  // namespace dml
