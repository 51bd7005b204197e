#include "core/size_text.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(SizeText, HasTheLargestUnitThatFits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(999), "999 B");
  EXPECT_EQ(size_text(12'345), "12 kB");
  EXPECT_EQ(size_text(999'400), "999 kB");
  EXPECT_EQ(size_text(999'600), "1.0 MB");
  EXPECT_EQ(size_text(1'440'000), "1.4 MB");
  EXPECT_EQ(size_text(9'960'000), "10 MB");
  EXPECT_EQ(size_text(640'000'000), "640 MB");
  EXPECT_EQ(size_text(999'900'000), "1.0 GB");
  EXPECT_EQ(size_text(1'900'000'000), "1.9 GB");
}

}  // namespace
}  // namespace dml
