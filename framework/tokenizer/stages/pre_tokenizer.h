// Splits a text into the words of the model. Some pre-tokenizers also rewrite the text (Metaspace, ByteLevel).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "tokenizer/text/aligned_text.h"

namespace dml {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// `words`: ranges of the text, in order; initially one range with the whole text. Empty words are dropped.
  virtual void apply(AlignedText& text, std::vector<ByteRange>& words) const = 0;
};

struct PreTokenizers {
  std::unique_ptr<PreTokenizer> splitter;  // null: the whole text is one word
  bool byte_level = false;                 // the model reads words as bytes
};

/// From the "pre_tokenizer" of a tokenizer.json. With `model_reads_bytes`, a final ByteLevel sets `byte_level` instead
/// of rewriting the words.
PreTokenizers make_pre_tokenizer(const Json& spec, bool model_reads_bytes, std::string_view where);

/// Where Metaspace adds a mark in front of a text.
enum class PrefixScheme { always, first, never };
/// Reads "prepend_scheme" or the older "add_prefix_space".
PrefixScheme read_prefix_scheme(const Json& spec, std::string_view where);

}  // namespace dml
