// Parser for grammars in llama.cpp's notation (GBNF).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/language.h"

namespace dml {

struct GrammarSymbol {
  bool terminal;
  std::uint32_t id;  // of a terminal, in GrammarRules::sets; else of a rule
};
using GrammarSequence = std::vector<GrammarSymbol>;

struct GrammarRule {
  std::string name;
  std::vector<GrammarSequence> alternatives;
  bool defined = false;
  std::size_t line = 0;  // line of its first mention
};

struct GrammarRules {
  std::vector<GrammarRule> rules;
  std::vector<std::vector<CodePoints>> sets;  // of terminals: sorted, disjoint ranges; each occurs once
  std::uint32_t root = 0;
};

/// Parses a grammar. Alternatives that never terminate are removed, so every stack can be completed. UserError for a
/// syntax error, and for left recursion, which would grow stacks without reading input.
GrammarRules parse_gbnf(std::string_view text, std::string_view source);

/// What parse_gbnf does with the rules it has read: removes what never terminates, rejects left recursion.
void check_grammar(GrammarRules& grammar, std::string_view source);

}  // namespace dml
