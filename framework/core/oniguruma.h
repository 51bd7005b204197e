// Regular expressions of tokenizer.json are Oniguruma's (its own syntax, on UTF-8); we match with PCRE2. Where both
// read the same text differently, the pattern is rewritten:
//   ^ $          match at every line (PCRE2_MULTILINE, set by the caller); (?m) lets `.` match a newline
//   [a[b]&&[^c]] sets are nested and intersected
//   x{1,3}+      repeats the repetition; only ?+ *+ ++ are possessive. x{3}? is optional, x{,3} is x{0,3}
//   a(?i)b|c     is a(?i:b|c)
//   \p{Han}      is the property Script, PCRE2's is Script_Extensions
//   \s \w \b \h, [[:alpha:]], \p{Alnum}, \p{Letter} have Oniguruma's members; \uXXXX is a code point, \v a vertical
//   tab, \Q no quotation
// Source: Oniguruma's doc/RE and doc/SYNTAX.md, and what Hugging Face's tokenizers do
// (tests/golden/tokenizer/rust.json).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

/// A pattern in PCRE2's syntax; its byte i comes from byte origins[i] of the original pattern.
struct TranslatedPattern {
  std::string text;
  std::vector<std::size_t> origins;

  void put(std::string_view part, std::size_t from) {
    text += part;
    origins.resize(text.size(), from);
  }
  void insert(std::size_t at, std::string_view part) {
    const std::size_t from = origin(at);
    text.insert(at, part);
    origins.insert(origins.begin() + static_cast<std::ptrdiff_t>(at), part.size(), from);
  }
  std::size_t origin(std::size_t at) const {
    return at < origins.size() ? origins[at] : origins.empty() ? 0 : origins.back() + 1;
  }
};

/// The pattern with the same matches in PCRE2 (UTF, UCP, MULTILINE). What PCRE2 lacks is left in its place, so that
/// PCRE2 refuses it.
TranslatedPattern oniguruma_to_pcre2(std::string_view pattern);

}  // namespace dml
