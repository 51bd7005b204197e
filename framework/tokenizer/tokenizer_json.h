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
  /// A list of strings in one block of memory.
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

  Json root;                      // the file without the tables, which are null
  Strings tokens;                 // of the vocabulary …
  std::vector<std::int64_t> ids;  // … with their ids (a list has none: its order counts) …
  std::vector<double> scores;     // … or their scores
  Strings merges;                 // alternating left and right parts
  bool has_vocabulary = false, has_merges = false;
};

/// Parses a tokenizer.json or, with `bare_vocabulary`, a vocab.json. Throws UserError with the position.
TokenizerJson parse_tokenizer_json(std::string_view text, std::string_view source, bool bare_vocabulary = false);
/// Parses merges.txt: lines "a b" after a line "#version".
void parse_merges(std::string_view text, std::string_view source, TokenizerJson& into);

/// Builds all stages from a parsed file, which does not name bos, eos, pad.
std::unique_ptr<Pipeline> make_pipeline(const TokenizerJson& json, std::string_view source);

}  // namespace dml
