// Sets of characters of an Oniguruma pattern ([…], \w, \p{…}) as PCRE2 expressions that match one character.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

/// A union: the members of a PCRE2 class, and expressions of one character that no class can hold.
struct OnigurumaSet {
  std::string members;
  std::vector<std::string> others;
  bool negated = false;

  /// Adds all characters of `other`.
  void add(const OnigurumaSet& other);
  /// The set as an expression that matches one character.
  std::string expression() const;
};

// The functions that read begin at pattern[at] and advance `at` past what they read. `in_class`: between brackets.

/// The set of an escape: \w and the like, \p{…}. nullopt for anything else.
std::optional<OnigurumaSet> read_set_escape(std::string_view pattern, std::size_t& at, bool in_class);
/// One character, which may be escaped, as PCRE2 writes it.
std::string read_character(std::string_view pattern, std::size_t& at, bool in_class);
/// A class, from its '[' on, as an expression that matches one character.
std::string read_class(std::string_view pattern, std::size_t& at);
/// An expression that matches at the borders of words, or (`inside`) everywhere else.
std::string word_border(bool inside);

}  // namespace dml
