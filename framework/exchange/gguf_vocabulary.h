// A tokenizer as GGUF stores it: flat lists under "tokenizer.ggml.…". llama.cpp has three kinds for decoder-only
// models: "llama", SentencePiece's BPE by scores; "t5", SentencePiece's unigram model; and "gpt2", byte-level BPE by a
// list of merges, whose pre-tokenizer is identified by a name ("pre").
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exchange/gguf.h"
#include "model/spec.h"

namespace dml {

struct GgufVocabulary {
  enum Type : std::int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

  std::string model;  // "llama", "t5", "gpt2" or "none"
  std::string pre;    // "default", "llama-bpe" …
  std::vector<std::string> tokens;
  std::vector<float> scores;  // for "llama" and "t5"
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;  // for "gpt2"
  std::string charsmap;             // for "t5": SentencePiece's table of normalized characters
  std::optional<Token> bos, eos, unk, pad, eot, eom;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  // Not in the file: which special tokens strip the white space next to them (gguf_phi3.h).
  std::set<Token> strips_right;
  bool strips_left = false;
  std::string chat_template;
  std::vector<std::pair<std::string, std::string>> named_templates;

  /// Whether it can be stored as tokenizer.model.
  bool is_sentencepiece() const { return model == "llama" || model == "t5"; }
  void write(GgufMetadata& to) const;
};

/// Reads the tokenizer of a Hugging Face model folder, with one token per row of the embedding. UserError when
/// llama.cpp has no such tokenizer; a warning when it may split some texts differently. Both name `source`.
GgufVocabulary read_vocabulary(const std::string& directory, const ModelSpec& spec, const std::string& source);

/// llama.cpp's name of the pre-tokenizer with this digest (see pre_tokenizer_probe()); "" if it is unknown.
std::string pre_tokenizer_of_digest(std::string_view digest);
/// llama.cpp's name of the pre-tokenizer with this pattern; "" if it is unknown. `digits`: every digit is split off
/// first.
std::string pre_tokenizer_of_pattern(std::string_view pattern, bool digits);
/// The text that llama.cpp's converter tokenizes to identify a pre-tokenizer, and the digest of the resulting ids.
std::string_view pre_tokenizer_probe();
std::string pre_tokenizer_digest(std::span<const Token> ids);

}  // namespace dml
