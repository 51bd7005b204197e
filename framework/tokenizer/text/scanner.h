// Hand-written splitters for the patterns of common byte-level tokenizers: one pass, no backtracking. Each is
// equivalent to its regular expression (a property test compares them on random text).
//
//   gpt2:   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   cl100k: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//           \s+(?!\S)|\s+       (Llama 3; Qwen 2 has \p{N} alone)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dml {

class Scanner {
 public:
  /// The scanner for exactly this pattern; unset if there is none.
  static std::optional<Scanner> for_pattern(std::string_view pattern);
  static std::string_view gpt2_pattern();
  static std::string_view cl100k_pattern(int digits);

  /// The end of the word that begins at `i` < text.size(). Words are adjacent.
  std::uint32_t next(std::string_view text, std::uint32_t i) const {
    return digits_ == 0 ? next_gpt2(text, i) : next_cl100k(text, i);
  }

 private:
  explicit Scanner(int digits) : digits_(digits) {}
  std::uint32_t next_gpt2(std::string_view text, std::uint32_t i) const;
  std::uint32_t next_cl100k(std::string_view text, std::uint32_t i) const;
  int digits_;  // maximum number of digits in a word; 0: gpt2
};

}  // namespace dml
