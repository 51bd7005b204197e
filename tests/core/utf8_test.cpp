#include "core/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace dml {
namespace {

std::string encoded(char32_t c) {
  std::string out;
  append_utf8(out, c);
  return out;
}
constexpr auto kValid = std::string_view::npos;

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string s = encoded(c);
    std::size_t i = 0;
    ASSERT_EQ(next_code_point(s, i), c);
    ASSERT_EQ(i, s.size());
    ASSERT_EQ(s.size(), c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u);
  }
}

TEST(Utf8, WhatIsNoCodePointIsWrittenAsReplacement) {
  for (char32_t c : {0xD800u, 0xDFFFu, 0x110000u, 0xFFFFFFFFu}) EXPECT_EQ(encoded(c), "\xef\xbf\xbd");
}

// Unicode 15, table 3-7, written out row by row: what may stand at each place.
bool well_formed(const unsigned char* s, std::size_t n) {
  struct Row {
    unsigned char first[2], second[2];
    std::size_t length;
  };
  static const Row table[] = {
      {{0x00, 0x7f}, {}, 1},           {{0xc2, 0xdf}, {0x80, 0xbf}, 2}, {{0xe0, 0xe0}, {0xa0, 0xbf}, 3},
      {{0xe1, 0xec}, {0x80, 0xbf}, 3}, {{0xed, 0xed}, {0x80, 0x9f}, 3}, {{0xee, 0xef}, {0x80, 0xbf}, 3},
      {{0xf0, 0xf0}, {0x90, 0xbf}, 4}, {{0xf1, 0xf3}, {0x80, 0xbf}, 4}, {{0xf4, 0xf4}, {0x80, 0x8f}, 4}};
  for (const Row& row : table) {
    if (n != row.length || s[0] < row.first[0] || s[0] > row.first[1]) continue;
    if (n > 1 && (s[1] < row.second[0] || s[1] > row.second[1])) return false;
    for (std::size_t k = 2; k < n; ++k)
      if (s[k] < 0x80 || s[k] > 0xbf) return false;
    return true;
  }
  return false;
}

TEST(Utf8, AgreesWithTheTableOnTwoBytesAndOnTheEdgesOfThreeAndFour) {
  const unsigned char edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
                                 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
  auto check = [](std::vector<unsigned char> bytes) {
    std::string s(bytes.begin(), bytes.end());
    std::size_t i = 0;
    char32_t c = next_code_point(s, i);
    for (std::size_t n = 1; n <= bytes.size(); ++n)
      if (well_formed(bytes.data(), n)) {
        ASSERT_EQ(i, n);
        ASSERT_EQ(encoded(c), s.substr(0, n));
        return;
      }
    ASSERT_EQ(i, 1u);
    ASSERT_EQ(c, 0xFFFDu);
    ASSERT_EQ(find_invalid_utf8(s), 0u);
  };
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b) check({static_cast<unsigned char>(a), static_cast<unsigned char>(b)});
  for (auto a : edges)
    for (auto b : edges)
      for (auto c : edges) {
        check({a, b, c});
        for (auto d : edges) check({a, b, c, d});
      }
}

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(find_invalid_utf8(""), kValid);
  EXPECT_EQ(find_invalid_utf8("aé漢😀"), kValid);
  EXPECT_EQ(find_invalid_utf8("aé\xff!"), 3u);
  EXPECT_EQ(find_invalid_utf8("ab\xc3"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xed\xa0\x80"), 0u);  // a surrogate
  EXPECT_EQ(find_invalid_utf8("\xc0\xaf"), 0u);      // an overlong slash
}

TEST(Utf8, AnIncompleteTailIsWhatMoreBytesCouldFinish) {
  for (std::string whole : {"é", "漢", "😀", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    for (std::size_t cut = 0; cut <= whole.size(); ++cut)
      EXPECT_EQ(incomplete_utf8_tail("ab漢" + whole.substr(0, cut)), cut == whole.size() ? 0 : cut);
  EXPECT_EQ(incomplete_utf8_tail(""), 0u);
  EXPECT_EQ(incomplete_utf8_tail("abc"), 0u);
}

TEST(Utf8, WhatCannotBeFinishedIsNoIncompleteTail) {
  for (auto s : {"\x80", "\xbf\xbf\xbf", "\xc0", "\xc1", "\xf5", "\xff", "\xe0\x80", "\xed\xa0", "\xf0\x80", "\xf4\x90",
                 "\xf0\x90\x41",
                 "\xe2"
                 "a",
                 "\xc3\x41"})
    EXPECT_EQ(incomplete_utf8_tail(s), 0u) << escape_controls(s);
}

TEST(Utf8, ControlsAreEscapedAndTextIsNot) {
  EXPECT_EQ(escape_controls("a\tb\nc é漢"), "a\tb\nc é漢");
  EXPECT_EQ(escape_controls(std::string_view("\x1b[31m\0\x7f\r", 8)), "\\x1b[31m\\x00\\x7f\\x0d");
  EXPECT_EQ(escape_controls("\xc2\x9b"
                            "1A \xc2\xa0"),
            "\\x9b1A \xc2\xa0");  // U+009B is a control, U+00A0 a space
}

TEST(Utf8, MarksOfDirectionAreShown) {
  EXPECT_EQ(escape_controls("a\u202eb\u2069\u061c\u200f"), "a\\u202eb\\u2069\\u061c\\u200f");
  EXPECT_EQ(escape_controls("‐ – … ؟ \u200d\u2065\xe2\x80"), "‐ – … ؟ \u200d\u2065\xe2\x80");
}

TEST(Utf8, FindsABadByteWhereverItStandsAmongAscii) {
  for (std::size_t size = 1; size < 40; ++size)
    for (std::size_t at = 0; at < size; ++at) {
      std::string text(size, 'x');
      text[at] = '\xc3';  // the first half of a character
      EXPECT_EQ(find_invalid_utf8(text), at);
      if (at + 1 < size) text[at + 1] = '\xa4';
      EXPECT_EQ(find_invalid_utf8(text), at + 1 < size ? kValid : at);
    }
}

TEST(Utf8, CountsCharacters) {
  EXPECT_EQ(count_characters("aé漢😀"), 4u);
  EXPECT_EQ(count_characters("a\xff\x80"), 3u);  // ill-formed: by the byte
  // A character that is split over two texts begins in the first one.
  EXPECT_EQ(count_character_starts("a\xf0\x9f"), 2u);
  EXPECT_EQ(count_character_starts("\x98\x80"), 0u);
}

}  // namespace
}  // namespace dml
