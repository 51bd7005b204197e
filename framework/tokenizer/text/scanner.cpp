#include "tokenizer/text/scanner.h"

#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Reads characters and their classes.
struct Cursor {
  const char* text;
  std::uint32_t size;
  const std::uint8_t* classes = char_classes();

  std::uint8_t at(std::uint32_t i, std::uint32_t& next) const {
    auto a = static_cast<unsigned char>(text[i]);
    if (a < 0x80) {
      next = i + 1;
      return classes[a];
    }
    std::size_t k = i;
    std::uint8_t c = classes[decode_char(text, k)];
    next = static_cast<std::uint32_t>(k);
    return c;
  }
  /// The end of the run of characters from i that have one of the classes (or, with `none`, none of them).
  std::uint32_t run(std::uint32_t i, std::uint8_t wanted) const {
    std::uint32_t next = i;
    while (i < size && (at(i, next) & wanted)) i = next;
    return i;
  }
  std::uint32_t run_other(std::uint32_t i) const {
    std::uint32_t next = i;
    while (i < size && !(at(i, next) & (kLetter | kNumber | kSpace))) i = next;
    return i;
  }
  /// \s+(?!\S)|\s+ : the last character of a run of white space belongs to the next word.
  std::uint32_t space(std::uint32_t i) const {
    std::uint32_t last = i, end = i, next = i;
    while (end < size && (at(end, next) & kSpace)) {
      last = end;
      end = next;
    }
    return end == size || last == i ? end : last;
  }
  /// The end of 's 't 're 've 'm 'll 'd at i; i if there is none.
  std::uint32_t contraction(std::uint32_t i, bool any_case) const {
    auto letter = [&](std::uint32_t k) -> char {
      if (k >= size) return 0;
      char c = text[k];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    char a = letter(i + 1), b = letter(i + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return i + 3;
    if (any_case && a == '\xc5' && b == '\xbf') return i + 3;  // ſ equals s when ignoring case
    return i;
  }
};

}  // namespace

std::string_view Scanner::gpt2_pattern() { return kGpt2; }
std::string_view Scanner::cl100k_pattern(int digits) { return digits == 1 ? kQwen2 : kLlama3; }

std::optional<Scanner> Scanner::for_pattern(std::string_view pattern) {
  if (pattern == kGpt2) return Scanner(0);
  if (pattern == kQwen2) return Scanner(1);
  if (pattern == kLlama3) return Scanner(3);
  return std::nullopt;
}

std::uint32_t Scanner::next_gpt2(std::string_view text, std::uint32_t i) const {
  Cursor cursor{text.data(), static_cast<std::uint32_t>(text.size())};
  if (text[i] == '\'')
    if (std::uint32_t end = cursor.contraction(i, false); end > i) return end;
  std::uint32_t start = i, next = i;
  if (text[i] == ' ' && i + 1 < text.size()) start = i + 1;  // " ?" in front of a word
  std::uint8_t c = cursor.at(start, next);
  if (c & kSpace) return cursor.space(i);
  if (c & kLetter) return cursor.run(next, kLetter);
  if (c & kNumber) return cursor.run(next, kNumber);
  return cursor.run_other(next);
}

std::uint32_t Scanner::next_cl100k(std::string_view text, std::uint32_t i) const {
  Cursor cursor{text.data(), static_cast<std::uint32_t>(text.size())};
  if (text[i] == '\'')
    if (std::uint32_t end = cursor.contraction(i, true); end > i) return end;
  std::uint32_t second = i, third = i;
  std::uint8_t c = cursor.at(i, second);
  if (c & kLetter) return cursor.run(second, kLetter);
  if (c & kNumber) {
    std::uint32_t end = second;
    for (int n = 1; n < digits_ && end < text.size() && (cursor.at(end, third) & kNumber); ++n) end = third;
    return end;
  }
  std::uint8_t d = second < text.size() ? cursor.at(second, third) : static_cast<std::uint8_t>(kSpace);
  if (text[i] != '\r' && text[i] != '\n' && (d & kLetter)) return cursor.run(third, kLetter);
  bool other = !(c & kSpace);
  if (other || (text[i] == ' ' && !(d & (kSpace | kLetter | kNumber)))) {
    std::uint32_t end = cursor.run_other(other ? second : third);
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end;
  }
  std::uint32_t end = cursor.run(i, kSpace), newline = end;
  while (newline > i && text[newline - 1] != '\n' && text[newline - 1] != '\r') --newline;
  return newline > i ? newline : cursor.space(i);
}

}  // namespace dml
