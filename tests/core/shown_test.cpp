#include "core/shown.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(Shown, CutsAtAWholeCharacterAndEscapesTheRest) {
  EXPECT_EQ(shown("name"), "name");
  EXPECT_EQ(shown("grün", 3), "gr…");
  EXPECT_EQ(shown("grün", 4), "grü…");
  EXPECT_EQ(shown("grün", 5), "grün");
  EXPECT_EQ(shown("a\nb\x1b[2J\xff", 80), "a b\\x1b[2J\\xff");
  EXPECT_EQ(shown("gr\xc3", 80), "gr\\xc3");
}

}  // namespace
}  // namespace dml
