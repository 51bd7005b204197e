// Regular expressions of tokenizer.json: Oniguruma's own syntax on UTF-8, as Hugging Face's tokenizers read it.
// Patterns are untrusted. Their length, nesting and calls of groups are limited, and of a search the steps, the memory
// and the time. A search that reaches a limit is an error that names the pattern.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace dml {

class OnigPattern {
 public:
  static constexpr std::size_t kMaxBytes = 4096, kMaxCalls = 16;

  /// UserError when the pattern does not compile or is beyond a limit: "WHERE: regular expression 'P': reason".
  OnigPattern(std::string_view pattern, std::string_view where);

  /// Sets `matches` to the non-overlapping matches from left to right: also to empty ones, but not right behind a match
  /// or in an empty text. The text must be well-formed UTF-8. UserError when the search reaches a limit.
  void find_all(std::string_view text, std::vector<ByteRange>& matches) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace dml
