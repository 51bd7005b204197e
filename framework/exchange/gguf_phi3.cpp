#include "exchange/gguf_phi3.h"

#include <algorithm>
#include <array>

#include "core/log.h"

namespace dml {

std::set<Token> stripping_tokens(const GgufVocabulary& vocabulary, std::string_view model_name) {
  std::string name(model_name);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (name.find("phi-3") == name.npos && name.find("phi3") == name.npos) return {};
  constexpr std::array<std::string_view, 3> others = {"<unk>", "<s>", "<|endoftext|>"};
  std::set<Token> out;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& text = vocabulary.tokens[i];
    const auto type = vocabulary.types[i];
    const bool special = type == GgufVocabulary::control || type == GgufVocabulary::user_defined ||
                         type == GgufVocabulary::unknown || text == "</s>";
    if (special && std::ranges::count(others, text) == 0) out.insert(static_cast<Token>(i));
  }
  return out;
}

std::string name_for_stripping(const GgufVocabulary& vocabulary, const std::string& name, const std::string& source) {
  // llama.cpp does not load a file with the name Phi-3 that lacks one of these.
  constexpr std::array<std::string_view, 4> needed = {"<unk>", "<s>", "</s>", "<|endoftext|>"};
  const bool may_be_phi3 =
      std::ranges::all_of(needed, [&](auto text) { return std::ranges::count(vocabulary.tokens, text) > 0; });
  if (!vocabulary.strips_left) {
    if (vocabulary.strips_right == stripping_tokens(vocabulary, name)) return name;
    const std::string phi3 = "Phi-3 " + name;
    if (may_be_phi3 && vocabulary.strips_right == stripping_tokens(vocabulary, phi3)) return phi3;
  }
  log_warning(
      "{}: some special tokens strip the white space next to them (lstrip, rstrip). llama.cpp does not strip it around "
      "the same tokens, so it may tokenize prompts differently",
      source);
  return name;
}

}  // namespace dml
