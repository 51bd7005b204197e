#include "exchange/gguf_phi3.h"

#include <algorithm>
#include <array>

#include "core/log.h"
#include "core/text.h"

namespace dml {
namespace {

// Where the name says Phi-3, in any case; npos if it does not.
std::size_t place_of_phi3(const std::string& name) {
  const std::string low = ascii_lower(name);
  return std::min(low.find("phi-3"), low.find("phi3"));
}

// "my-phi3-chat" as "my-phi 3-chat", which llama.cpp does not take for Phi-3.
std::string without_phi3(std::string name) {
  for (std::size_t at = place_of_phi3(name); at != name.npos; at = place_of_phi3(name))
    name.replace(at + 3, name[at + 3] == '-' ? 1 : 0, " ");
  return name;
}

// llama.cpp does not load a file with the name Phi-3 that lacks one of these.
bool may_be_phi3(const GgufVocabulary& vocabulary) {
  constexpr std::array<std::string_view, 4> needed = {"<unk>", "<s>", "</s>", "<|endoftext|>"};
  return vocabulary.tokens.empty() ||
         std::ranges::all_of(needed, [&](auto text) { return std::ranges::count(vocabulary.tokens, text) > 0; });
}

}  // namespace

std::set<Token> stripping_tokens(const GgufVocabulary& vocabulary, std::string_view model_name) {
  if (place_of_phi3(std::string(model_name)) == std::string::npos) return {};
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
  const std::string other = without_phi3(name), phi3 = "Phi-3 " + name;
  const bool loads_as_phi3 = may_be_phi3(vocabulary);
  const std::string& kept = loads_as_phi3 ? name : other;
  if (!vocabulary.strips_left) {
    if (vocabulary.strips_right == stripping_tokens(vocabulary, kept)) return kept;
    if (vocabulary.strips_right.empty()) return other;
    if (loads_as_phi3 && vocabulary.strips_right == stripping_tokens(vocabulary, phi3)) return phi3;
  }
  log_warning(
      "{}: some special tokens strip the white space next to them (lstrip, rstrip). llama.cpp does not strip it around "
      "the same tokens, so it may tokenize prompts differently",
      source);
  return kept;
}

}  // namespace dml
