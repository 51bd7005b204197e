#include "core/arguments.h"

#include <gtest/gtest.h>

#include <limits>

namespace dml {
namespace {

const std::vector<Argument> kKnown{{"power", "", 1.0, 10},
                                   {"cycles", "", 2},
                                   {"mirrored", "", false},
                                   {"kind", "", "linear", 1e300, {"linear", "cosine"}},
                                   {"label", "", ""}};

TEST(ArgumentsOfRows, HaveTheGivenValuesElseTheirDefaults) {
  const Arguments a({{"kind", "cosine"}, {"power", 0.5}, {"mirrored", true}}, kKnown, "kwargs");
  EXPECT_EQ(a.number("power"), 0.5);
  EXPECT_EQ(a.whole_number("cycles"), 2);
  EXPECT_TRUE(a.flag("mirrored"));
  EXPECT_EQ(a.word("kind"), "cosine");
  EXPECT_EQ(dump(a.all()), R"({"power":0.5,"cycles":2,"mirrored":true,"kind":"cosine","label":""})");
}

TEST(ArgumentsOfRows, ThatAreInvalidAreReportedTogether) {
  Problems earlier;
  earlier.add("first");
  try {
    Arguments({{"cycle", 1}, {"power", 10}, {"cycles", -1}, {"mirrored", 1}, {"kind", "cosin"}, {"label", 2}}, kKnown,
              "kwargs", earlier);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "first\nkwargs: unknown argument 'cycle'; did you mean 'cycles'?\nkwargs: power must be in [0, 10), is "
        "10\nkwargs: cycles must not be negative, is -1\nkwargs: mirrored must be true or false, is 1\n"
        "kwargs: kind must be one of linear, cosine, is \"cosin\"; did you mean 'cosine'?\n"
        "kwargs: label must be a string, is 2");
  }
}

TEST(ArgumentsOfRows, AreWholeNumbersIfTheirDefaultIsOne) {
  const Argument cycles{"cycles", "", 2}, rank{"rank", "", 8, 65536}, power{"power", "", 1.0};
  EXPECT_EQ(cycles.problem_with(8.0), "");
  EXPECT_EQ(cycles.problem_with(9007199254740991), "");
  EXPECT_EQ(cycles.problem_with(8.7), "cycles must be a whole number, is 8.7");
  EXPECT_EQ(cycles.problem_with(-0.5), "cycles must be a whole number, is -0.5");
  EXPECT_EQ(cycles.problem_with(1e300), "cycles must be in [0, 9007199254740992), is 1e+300");
  EXPECT_EQ(cycles.problem_with(std::numeric_limits<double>::infinity()),
            "cycles must be in [0, 9007199254740992), is inf");
  EXPECT_EQ(rank.problem_with(65536), "rank must be in [0, 65536), is 65536");
  EXPECT_EQ(power.problem_with(8.7), "");
}

}  // namespace
}  // namespace dml
