// Whether two tokenizers give the same ids, whatever their files look like: a saved tokenizer.json has other bytes than
// the one it was loaded from.
#pragma once

#include "tokenizer/tokenizer.h"

namespace dml {

/// Whether `other` reads ids of `one` as the same tokens and splits texts alike: it has all tokens of `one`, the same
/// BOS and EOS, and encodes a probe into the same ids. It may have more tokens, and may lack a token of `one` for
/// padding alone, which no text contains.
bool has_same_tokens(const Tokenizer& one, const Tokenizer& other);

}  // namespace dml
