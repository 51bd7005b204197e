// What the matches of patterns are is compared with Hugging Face's library in golden_test.cpp; here are the limits, and
// the places where this class does more than call Oniguruma.
#include "tokenizer/text/onig_pattern.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <thread>

#include "core/error.h"

namespace dml {
namespace {

using Ranges = std::vector<ByteRange>;

Ranges found(std::string_view pattern, std::string_view text) {
  Ranges out;
  OnigPattern(pattern, "t.json").find_all(text, out);
  return out;
}

std::string error_of(std::string_view pattern, std::string_view text = "") {
  try {
    found(pattern, text);
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

std::string copies_of(std::string_view text, int count) {
  std::string out;
  while (count-- > 0) out += text;
  return out;
}

TEST(OnigPattern, FindsAllMatches) {
  EXPECT_EQ(found("\\w+|\\h", "ab ² c"), (Ranges{{0, 2}, {3, 5}, {6, 7}}));
  EXPECT_EQ(found("x*", "axxb"), (Ranges{{0, 0}, {1, 3}, {4, 4}}));  // none right behind a match
  EXPECT_EQ(found("x*", ""), (Ranges{}));
  EXPECT_EQ(found("\\b", "é ü"), (Ranges{{0, 0}, {2, 2}, {3, 3}, {5, 5}}));
  EXPECT_EQ(found("a\\Kb", "abab"), (Ranges{{1, 2}, {3, 4}}));
  EXPECT_EQ(found("(?<=\\Ka)b|a", "ab"), (Ranges{{0, 1}, {1, 2}}));  // the second match begins at 0
  EXPECT_EQ(found("a|\\z", std::string_view("a\0a", 3)), (Ranges{{0, 1}, {2, 3}}));
}

// Long texts are searched position by position.
TEST(OnigPattern, FindsTheSameInALongText) {
  constexpr std::uint32_t kCount = 9000;
  const std::string part = "éé 12 ", text = copies_of(part, kCount);
  for (const char* pattern : {"\\d+", "(?<=é) ", "é++", "2(?= )", "\\b"}) {
    Ranges expected;
    const Ranges in_part = found(pattern, part);
    for (std::uint32_t i = 0; i < kCount; ++i)
      for (ByteRange r : in_part) expected.push_back({r.begin + i * 8, r.end + i * 8});
    EXPECT_EQ(found(pattern, text), expected) << pattern;
  }
}

TEST(OnigPattern, NamesWhatIsWrong) {
  EXPECT_EQ(error_of("a(b"), "t.json: regular expression 'a(b': end pattern with unmatched parenthesis");
  EXPECT_EQ(error_of("\\p{No\npe}"),
            "t.json: regular expression '\\p{No pe}': invalid character property name {No pe}");
  EXPECT_THAT(error_of(copies_of("a", 5000)), testing::HasSubstr(": it has 5000 bytes, the limit is 4096"));
  EXPECT_THAT(error_of("a\xff"), testing::HasSubstr(": it is not UTF-8"));
  EXPECT_THAT(error_of(copies_of("(", 2000) + copies_of(")", 2000)), testing::HasSubstr(": parse depth limit over"));
}

TEST(OnigPattern, RefusesCallouts) {
  EXPECT_THAT(error_of("a(?{x})"), testing::HasSubstr(": undefined group option"));
  EXPECT_THAT(error_of("a(*FAIL)"), testing::HasSubstr(": target of repeat operator is not specified"));
}

// Compiling follows every path of calls: 2^100 in this one.
TEST(OnigPattern, LimitsTheCallsOfGroups) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += fmt::format("(?<n{0}>\\g<n{1}>\\g<n{1}>)", i, i + 1);
  EXPECT_THAT(error_of(pattern + "(?<n100>a)"), testing::HasSubstr(": it has 200 calls of groups, the limit is 16"));
  EXPECT_EQ(found("(?<n>\\((?:[a-z]|\\g<n>)*\\))", "a(b(c))d"), (Ranges{{1, 7}}));
  EXPECT_THAT(error_of("(?<n>\\g<n>a)"), testing::HasSubstr(": never ending recursion"));
}

TEST(OnigPattern, RepeatsAGroupOverALongWord) {
  const std::string text = copies_of("a", 1'000'000);
  for (const char* pattern : {"((?=[\\p{L}])([^A-Z]))+", "[\\p{L}&&[^\\p{Han}]]*[\\p{L}&&[^A-Z]]+"})
    EXPECT_EQ(found(pattern, text), (Ranges{{0, 1'000'000}})) << pattern;
}

TEST(OnigPattern, StopsWhereASearchWouldNotEnd) {
  EXPECT_EQ(error_of("(a+)+$", copies_of("a", 60) + "b"),
            "t.json: regular expression '(a+)+$' takes too many steps on a text of 61 bytes");
  EXPECT_THAT(error_of("(?:a|b)*c", copies_of("a", 5'000'000)), testing::HasSubstr("takes too many steps"));
  // It takes no step back, but quadratic time.
  EXPECT_THAT(error_of("a++b", copies_of("a", 1'000'000)), testing::HasSubstr("takes too long"));
}

TEST(OnigPattern, IsSharedByThreads) {
  const OnigPattern pattern("(?<n>[a-c])\\k<n>", "t.json");
  const std::string text = copies_of("abbacca", 3000);
  std::vector<Ranges> found_by(8);
  {
    std::vector<std::jthread> threads;
    for (Ranges& found : found_by) threads.emplace_back([&] { pattern.find_all(text, found); });
  }
  for (const Ranges& each : found_by) EXPECT_EQ(each.size(), 3000u * 3 - 1);
}

}  // namespace
}  // namespace dml
