// The rules of a grammar in llama.cpp's notation (GBNF).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/language.h"

namespace dml {

struct GrammarSymbol {
  bool terminal;
  std::uint32_t rule = 0;
  std::vector<CodePoints> set;  // of a terminal, ascending
};
using GrammarSequence = std::vector<GrammarSymbol>;

struct GrammarRule {
  std::string name;
  std::vector<GrammarSequence> alternatives;
  bool defined = false;
  std::size_t line = 0;  // where it is first named
};

struct GrammarRules {
  std::vector<GrammarRule> rules;
  std::uint32_t root = 0;
};
/// Alternatives that can never end are taken out, so that every stack can be finished. UserError where the text is
/// wrong, and for left recursion, which would grow stacks without reading anything.
GrammarRules parse_gbnf(std::string_view text, std::string_view source);

}  // namespace dml
