// The syntax tree of a regular expression.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "constraint/language.h"

namespace dml {

inline constexpr std::size_t kMaxTerms = 500'000;  // of one expression

struct RegexTerm;
using RegexTermPtr = std::unique_ptr<RegexTerm>;

/// Assertions consume no text; their language depends on the terms after them, for some also on those before.
struct RegexTerm {
  enum class Kind {
    language,
    sequence,
    either,
    repetition,
    begin,
    end,
    ahead,
    not_ahead,
    boundary,
    not_boundary,
    behind,
    not_behind
  } kind;
  Languages::Id language = Languages::kEmptyText;
  std::vector<CodePoints> set{};  // of one character: which ones; of behind and not_behind: those before
  std::vector<RegexTermPtr> parts{};
  std::uint32_t least = 0, most = 0;

  bool asserts() const {
    if (kind >= Kind::begin) return true;
    for (auto& part : parts)
      if (part->asserts()) return true;
    return false;
  }
};

/// Parses a regular expression. UserError with the position of what is invalid or not supported.
RegexTermPtr parse_regex(Languages& languages, std::string_view source);

}  // namespace dml
