// The hand-written splitters against their own regular expressions, on random text from all of Unicode.
#include "tokenizer/text/scanner.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "core/error.h"
#include "core/random.h"
#include "core/utf8.h"
#include "tokenizer/text/onig_pattern.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

// Oniguruma and utf8proc may know different versions of Unicode; characters that are new to one of them are left out.
bool both_agree(char32_t c) {
  static const OnigPattern letter("\\p{L}", "test"), number("\\p{N}", "test"), space("\\s", "test");
  std::string s;
  append_utf8(s, c);
  std::vector<ByteRange> m;
  auto matches = [&](const OnigPattern& r) { return r.find_all(s, m), !m.empty(); };
  std::uint8_t kind = char_classes()[c];
  return matches(letter) == !!(kind & kLetter) && matches(number) == !!(kind & kNumber) &&
         matches(space) == !!(kind & kSpace);
}

std::string random_text(const Random& random, std::uint64_t& at) {
  static const std::u32string near =
      U"'''''  sStTmMdDrReEvVlLſKaZ09٣½\r\n\r\n\t\u0085\u00a0\u180e\u2028\u3000.,!-_漢é\u0301🙂 ";
  std::string out;
  for (std::uint64_t n = random.below(at++, 24) + 1; n > 0; --n) {
    char32_t c = near[random.below(at++, near.size())];
    if (random.below(at++, 6) == 0) c = static_cast<char32_t>(random.below(at++, 0x30000));
    if ((c >= 0xd800 && c < 0xe000) || !both_agree(c)) c = ' ';
    append_utf8(out, c);
  }
  return out;
}

TEST(Scanner, CutsExactlyAsItsRegularExpression) {
  for (std::string_view pattern : {Scanner::gpt2_pattern(), Scanner::cl100k_pattern(1), Scanner::cl100k_pattern(3)}) {
    OnigPattern regex(pattern, "test");
    auto scanner = Scanner::for_pattern(pattern);
    ASSERT_TRUE(scanner);
    Random random(11, Purpose::sample);
    std::uint64_t at = 0;
    for (int i = 0; i < 20000; ++i) {
      std::string text = random_text(random, at);
      std::vector<ByteRange> expected, got;
      regex.find_all(text, expected);
      for (std::uint32_t k = 0; k < text.size();) {
        std::uint32_t end = scanner->next(text, k);
        got.push_back({k, end});
        k = end;
      }
      ASSERT_EQ(got, expected) << pattern << " on " << escape_controls(text);
    }
  }
}

TEST(Scanner, KnowsNoOtherPattern) { EXPECT_FALSE(Scanner::for_pattern("\\p{L}+")); }

TEST(Unicode, TheTwoTablesDifferOnlyInNewCharacters) {
  int differ = 0;
  for (char32_t c = 0; c < 0x3000; ++c) differ += !both_agree(c);
  EXPECT_LT(differ, 64);
}

TEST(Unicode, IllFormedBytesBecomeOneMarkPerMaximalPart) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(replace_invalid_utf8("a\xff\xfe z"), "a" + r + r + " z");
  EXPECT_EQ(replace_invalid_utf8("\xe6\xbc"), r);  // one character cut off
  EXPECT_EQ(replace_invalid_utf8("\xe6\xbcx"), r + "x");
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9f\x99"), r);
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9f\x99\x82"), "🙂");
  EXPECT_EQ(replace_invalid_utf8("\xe0\x80\x80"), r + r + r);  // overlong: no part of it begins a character
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), r + r + r);  // a surrogate
  EXPECT_EQ(replace_invalid_utf8("\xc3"), r);
  EXPECT_EQ(replace_invalid_utf8("\xef\xbf\xbd"), r);
}

}  // namespace
}  // namespace dml
