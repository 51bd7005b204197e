// Rewrites of the text before it is split: Unicode normal forms, case, accents, replacements.
#pragma once

#include <memory>
#include <string_view>

#include "core/json.h"
#include "tokenizer/text/aligned_text.h"
#include "tokenizer/text/byte_trie.h"
#include "tokenizer/text/charsmap.h"

namespace dml {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// From the "normalizer" of a tokenizer.json; null for null. `where` is the JSON path for errors.
std::unique_ptr<Normalizer> make_normalizer(const Json& spec, std::string_view where);

/// Normalization of a SentencePiece model (its NormalizerSpec).
struct SentencePieceNormalizerOptions {
  Charsmap charsmap;
  ByteTrie user_defined;  // pieces that are not normalized
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool whitespace_as_suffix = false;
  bool prefix_only_first = false;  // Hugging Face's `legacy: false`: no prefix after a special token
};
std::unique_ptr<Normalizer> make_sentencepiece_normalizer(SentencePieceNormalizerOptions options);

}  // namespace dml
