// Token spellings back to text, as the "decoder" of a tokenizer.json says.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace dml {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Rewrites the list of spellings; the text is what they are joined to.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
  /// Decodes one token of a stream to bytes, which may be part of a character.
  virtual void decode_one(std::string& token, bool first) const = 0;
};

/// null for null: spellings are joined with spaces.
std::unique_ptr<Decoder> make_decoder(const Json& spec, std::string_view where);
/// SentencePiece: marks are spaces, bytes are bytes, the space in front is dropped.
std::unique_ptr<Decoder> make_sentencepiece_decoder(bool drop_first_space);

}  // namespace dml
