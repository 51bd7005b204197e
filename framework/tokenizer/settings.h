// The settings files of a tokenizer in a model directory: named special tokens, added tokens, flags, templates.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/stages/added_tokens.h"

namespace dml {

struct TokenizerSettings {
  struct Named {
    std::optional<std::string> text;
    bool lstrip = false, rstrip = false, single_word = false;
  };
  Named bos, eos, pad, unk;
  std::vector<std::string> additional_special_tokens;
  std::vector<AddedToken> added;  // added_tokens_decoder and added_tokens.json
  std::optional<bool> add_bos, add_eos, add_prefix_space, legacy;
  std::string tokenizer_class;
  std::string chat_template;
  std::vector<std::pair<std::string, std::string>> named_templates;
  std::vector<std::string> files;  // all files that were read
};

/// Reads tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja and
/// additional_chat_templates/*.jinja, if they exist. Throws UserError naming file and key.
TokenizerSettings read_settings(const std::string& directory);

/// The names in additional_chat_templates/, sorted; empty if there is no such folder.
std::vector<std::string> named_template_files(const std::string& directory);

}  // namespace dml
