// Token spellings to text, as specified by the "decoder" of a tokenizer.json.
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
  /// Rewrites the list of spellings; the text is their concatenation.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
  /// Decodes one token of a stream to bytes, which may be part of a character.
  virtual void decode_one(std::string& token, bool first) const = 0;
};

/// null for null: spellings are joined with spaces.
std::unique_ptr<Decoder> make_decoder(const Json& spec, std::string_view where);
/// SentencePiece: marks become spaces, "<0x..>" bytes, and the leading space is optionally dropped.
std::unique_ptr<Decoder> make_sentencepiece_decoder(bool drop_first_space);

}  // namespace dml
