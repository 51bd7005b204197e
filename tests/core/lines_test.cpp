#include "core/lines.h"

#include <gmock/gmock.h>

namespace dml {
namespace {

using testing::ElementsAre;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  for (const auto [number, line] : Lines(text)) out.push_back(std::to_string(number) + ":" + std::string(line));
  return out;
}

TEST(Lines, EndWithALineFeedOrAtTheEndOfTheText) {
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("a"), ElementsAre("1:a"));
  EXPECT_THAT(lines_of("a\n"), ElementsAre("1:a"));
  EXPECT_THAT(lines_of("\n"), ElementsAre("1:"));
  EXPECT_THAT(lines_of("a\n\nb\r\n\r\nc\rd"), ElementsAre("1:a", "2:", "3:b", "4:", "5:c\rd"));
}

TEST(Lines, AreBlankWithoutAVisibleCharacter) {
  EXPECT_TRUE((Line{1, ""}.blank()));
  EXPECT_TRUE((Line{1, " \t"}.blank()));
  EXPECT_FALSE((Line{1, " x"}.blank()));
}

}  // namespace
}  // namespace dml
