#include "assembly/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(Samples, AreShortenedToOneLine) {
  const SampleMetrics sample{3, "a very long prompt " + std::string(500, 'x') + " and its end\n", "",
                             "short\nanswer, ünïcode " + std::string(500, 'y') + "\x1b[2J"};
  const std::string line = sample_line(sample);
  EXPECT_LT(line.size(), 140u);
  EXPECT_EQ(line.find('\n'), line.npos);
  EXPECT_THAT(line, testing::HasSubstr("and its end"));
  EXPECT_THAT(line, testing::HasSubstr("→ short answer, ünïcode yyy"));
  EXPECT_EQ(sample_line({3, "What?", "", "\x1b[2J"}).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace dml
