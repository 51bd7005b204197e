// A tokenizer as GGUF holds it: flat lists under "tokenizer.ggml.…". llama.cpp has three kinds that decoder-only models
// use: "llama", SentencePiece's byte-pair encoding by scores; "t5", its unigram model; and "gpt2", byte-level byte-pair
// encoding by a list of merges, whose splitting into words goes by a name ("pre").
#pragma once

#include <optional>
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
  std::vector<float> scores;  // of "llama" and "t5"
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;  // of "gpt2"
  std::string charsmap;             // of "t5": SentencePiece's table of normalised characters
  std::optional<Token> bos, eos, unk, pad, eot, eom;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::string chat_template;
  std::vector<std::pair<std::string, std::string>> named_templates;

  /// Whether tokenizer.model can hold it.
  bool is_sentencepiece() const { return model == "llama" || model == "t5"; }
  void write(GgufMetadata& to) const;
};

/// The tokenizer of a Hugging Face model folder, with a token for every row of the model. UserError where llama.cpp has
/// no such tokenizer; a warning where it may split some texts in another way.
GgufVocabulary read_vocabulary(const std::string& directory, const ModelSpec& spec);

/// llama.cpp's name for a pre-tokenizer: by the ids that a certain text becomes ("" when they are of no tokenizer it
/// knows).
std::string pre_tokenizer_of_digest(std::string_view digest);
/// By the pattern that splits words; "" for an unknown one. `digits`: every digit is split off first.
std::string pre_tokenizer_of_pattern(std::string_view pattern, bool digits);
/// The text of which llama.cpp's converter takes the digest, and the digest of its ids.
std::string_view pre_tokenizer_probe();
std::string pre_tokenizer_digest(std::span<const Token> ids);

}  // namespace dml
