// Splits a text into the words the model sees. Some splitters rewrite the text on the way (Metaspace, ByteLevel).
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
  /// `words`: ranges of the text, in order; at first one word, the whole. Empty words are left out.
  virtual void apply(AlignedText& text, std::vector<ByteRange>& words) const = 0;
};

struct PreTokenizers {
  std::unique_ptr<PreTokenizer> splitter;  // null: the whole text is one word
  bool byte_level = false;                 // words are to be spelled in GPT-2's byte alphabet …
};

/// From the "pre_tokenizer" of a tokenizer.json. With `model_reads_bytes`, a ByteLevel that comes last leaves the words
/// as bytes and says so in `byte_level`; else it rewrites them.
PreTokenizers make_pre_tokenizer(const Json& spec, bool model_reads_bytes, std::string_view where);

/// Metaspace as old tokenizer classes have it: every space a mark.
enum class PrefixScheme { always, first, never };
/// Reads "prepend_scheme" or the older "add_prefix_space".
PrefixScheme read_prefix_scheme(const Json& spec, std::string_view where);

}  // namespace dml
