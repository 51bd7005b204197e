// Regular expressions of tokenizer.json (written for Oniguruma), run by PCRE2 under limits: a pattern that backtracks
// without end is an error with the pattern in it, never a hang.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace dml {

class Regex {
 public:
  /// `where` is the JSON path for errors. UserError when the pattern is not valid or over 4 KB.
  Regex(std::string_view pattern, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;

  /// Non-overlapping matches from left to right, empty ones left out. The text must be well-formed UTF-8.
  void find_all(std::string_view text, std::vector<ByteRange>& matches) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// Text as a pattern that matches exactly it.
std::string regex_escape(std::string_view text);

}  // namespace dml
