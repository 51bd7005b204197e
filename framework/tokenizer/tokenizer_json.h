// Hugging Face's tokenizer.json (and its older form, vocab.json + merges.txt).
//
// The file is read in one pass: vocabulary and merges, which are nearly all of it, go straight into compact tables; the
// rest becomes a small JSON tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "tokenizer/pipeline.h"

namespace dml {

struct TokenizerJson {
  /// Strings one after the other.
  struct Strings {
    std::string block;
    std::vector<std::uint32_t> ends;
    void add(std::string_view s) {
      block.append(s);
      ends.push_back(static_cast<std::uint32_t>(block.size()));
    }
    std::size_t size() const { return ends.size(); }
    std::string_view operator[](std::size_t i) const {
      std::uint32_t begin = i == 0 ? 0 : ends[i - 1];
      return std::string_view(block).substr(begin, ends[i] - begin);
    }
  };

  Json root;                      // all but the tables: where they stood is null
  Strings tokens;                 // of the vocabulary …
  std::vector<std::int64_t> ids;  // … with their ids (a list has none: its order counts) …
  std::vector<double> scores;     // … or their scores
  Strings merges;                 // left, right, left, right …
  bool has_vocabulary = false, has_merges = false;
};

/// Reads a tokenizer.json, or, with `bare_vocabulary`, a vocab.json. UserError with the place.
TokenizerJson parse_tokenizer_json(std::string_view text, std::string_view source, bool bare_vocabulary = false);
/// merges.txt: "a b" lines, "#version" first.
void parse_merges(std::string_view text, std::string_view source, TokenizerJson& into);

/// All stages from a parsed file. Special tokens by name (bos …) are not known to it.
std::unique_ptr<Pipeline> make_pipeline(const TokenizerJson& json, std::string_view source);

}  // namespace dml
