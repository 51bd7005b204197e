// Regular expressions of recipes, adapters and evaluations, as Python's `re` reads them; the only wrapper of PCRE2, so
// `dml validate` accepts exactly the patterns that a run can use. Patterns are untrusted: length, steps, depth and
// memory of a search are limited, and catastrophic backtracking is an error that names the pattern.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

class Regex {
 public:
  static constexpr std::size_t kMaxPatternBytes = 4096;  // bytes of a pattern

  /// UserError when the pattern does not compile or is longer than kMaxPatternBytes: "WHERE: regular expression 'P',
  /// character N: reason".
  Regex(std::string_view pattern, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Why a pattern cannot be used ("character 4: missing closing parenthesis"); "" if it can.
  static std::string problem(std::string_view pattern);

  /// Whether the whole text matches (re.fullmatch). All searches throw UserError when they reach a limit.
  bool matches(std::string_view text) const;
  /// Whether a match begins at the start of the text (re.match).
  bool matches_start(std::string_view text) const;
  /// For every non-empty match, its first non-empty group or, without groups, the match (like re.findall). The text
  /// must be well-formed UTF-8.
  std::vector<std::string> captures(std::string_view text) const;
  /// The text without its matches (re.sub).
  std::string without_matches(std::string_view text) const;

 private:
  struct Compiled;
  bool match(std::string_view text, std::uint32_t anchors) const;
  /// `captured`: the first non-empty group; without groups, the match.
  using Found = std::function<void(std::size_t begin, std::size_t end, std::string_view captured)>;
  void search(std::string_view text, const Found& found) const;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace dml
