// The names of the files of a model, as transformers and PEFT write them.
#pragma once

#include <array>
#include <string_view>

namespace dml {

/// Files of a tokenizer and its chat template.
inline constexpr std::array<std::string_view, 8> kTokenizerFiles{
    "tokenizer.json", "tokenizer.model",         "tokenizer_config.json", "vocab.json",
    "merges.txt",     "special_tokens_map.json", "added_tokens.json",     "chat_template.jinja"};
/// A folder of further chat templates: NAME.jinja.
inline constexpr std::string_view kTemplateFolder = "additional_chat_templates";
inline constexpr std::string_view kTemplateExtension = ".jinja";
/// Files of a tokenizer that dml does not read.
inline constexpr std::array<std::string_view, 2> kOtherTokenizerFiles{"vocab.txt", "chat_template.json"};

inline constexpr std::array<std::string_view, 4> kConfigFiles{"config.json", "generation_config.json",
                                                              "adapter_config.json", "quantization_config.json"};

}  // namespace dml
