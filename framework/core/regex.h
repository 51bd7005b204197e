// Regular expressions of recipes, adapters and tokenizers, compiled and run by PCRE2 in this one place: what `dml
// validate` accepts is what a run matches with. Patterns are hostile: length, steps, depth and memory of a search are
// limited, and a pattern that backtracks without end is an error that names it, never a hang.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

enum class RegexSyntax {
  python,     // Python's `re`: lora_target_modules, rank_pattern, unfrozen_parameters
  oniguruma,  // tokenizer.json: \s, \w and \h as Hugging Face's tokenizers read them
};

class Regex {
 public:
  static constexpr std::size_t kLongest = 4096;  // bytes of a pattern

  /// UserError when the pattern does not compile or is longer than kLongest: "WHERE: regular expression 'P', character
  /// N: reason".
  Regex(std::string_view pattern, RegexSyntax syntax, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Why a pattern cannot be used ("character 4: missing closing parenthesis"); "" when it can.
  static std::string problem(std::string_view pattern, RegexSyntax syntax);

  /// Whether the whole text matches (re.fullmatch). UserError when the limits are reached; so for all searches.
  bool matches(std::string_view text) const;
  /// Whether a match begins at the start of the text (re.match).
  bool matches_start(std::string_view text) const;
  /// Non-overlapping matches from left to right without the empty ones, as {begin, end} in bytes. The text must be
  /// well-formed UTF-8 of less than 4 GB.
  template <class Range>
  void find_all(std::string_view text, std::vector<Range>& ranges) const {
    ranges.clear();
    search(text, [&](std::uint32_t begin, std::uint32_t end, std::string_view) { ranges.push_back({begin, end}); });
  }
  /// As re.findall: of every match (an empty one does not count) the first group that holds anything, or, without
  /// groups, all of it. The text must be well-formed UTF-8.
  std::vector<std::string> captures(std::string_view text) const;
  /// re.sub: the text without its matches.
  std::string without_matches(std::string_view text) const;

 private:
  struct Compiled;
  bool match(std::string_view text, std::uint32_t anchors) const;
  /// `captured`: the first group that holds anything; where there are no groups, the match.
  using Found = std::function<void(std::uint32_t begin, std::uint32_t end, std::string_view captured)>;
  void search(std::string_view text, const Found& found) const;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace dml
