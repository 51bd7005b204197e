#include "core/text.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(Text, IsTrimmedAndReplacedFromLeftToRight) {
  EXPECT_EQ(trim(" \ta b\n"), "a b");
  EXPECT_EQ(trim("\r\n"), "");
  EXPECT_EQ(with_replaced("aaa-a", "aa", "a"), "aa-a");
  EXPECT_EQ(with_replaced("abc", "b", ""), "ac");
  EXPECT_EQ(with_replaced("abc", "", "x"), "abc");
  EXPECT_EQ(with_replaced("", "a", "b"), "");
}

TEST(Text, IsHexOfANumberOfLowerCaseDigits) {
  EXPECT_TRUE(is_hex("09af", 4));
  EXPECT_FALSE(is_hex("09aF", 4));
  EXPECT_FALSE(is_hex("09af", 5));
}

TEST(Text, IsMadeASafeFileName) { EXPECT_EQ(safe_file_name("eval loss/é-1_2.x"), "eval_loss___-1_2.x"); }

}  // namespace
}  // namespace dml
