#include "core/error.h"

#include <gmock/gmock.h>

#include <cerrno>

namespace dml {
namespace {

TEST(Errors, CarryTheExitCodeOfTheirKind) {
  EXPECT_EQ(UserError("bad value").code(), ExitCode::user);
  EXPECT_EQ(IoError("disk full").code(), ExitCode::io);
  EXPECT_EQ(Error(ExitCode::memory, "too big").code(), ExitCode::memory);
  EXPECT_EQ(static_cast<int>(ExitCode::stopped), 75);
}

TEST(Errors, UserErrorFormatsItsText) { EXPECT_STREQ(UserError("{} of {}", 3, "four").what(), "3 of four"); }

TEST(Errors, TextWithBracesIsTakenAsItIs) {
  std::string text = "unknown key '{x}'";
  EXPECT_EQ(UserError(text).what(), text);
}

TEST(Errors, IoErrorNamesPathOperationAndReason) {
  errno = ENOSPC;
  EXPECT_STREQ(IoError("out/model", "cannot write").what(), "out/model: cannot write: No space left on device");
}

TEST(Check, PassesWhenItHolds) { EXPECT_NO_THROW(DML_CHECK(1 + 1 == 2, "never {}", "seen")); }

TEST(Check, NamesConditionPlaceAndText) {
  try {
    int rows = 3;
    DML_CHECK(rows == 4, "rows {}", rows);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::internal);
    EXPECT_THAT(e.what(), testing::HasSubstr("error_test.cpp:"));
    EXPECT_THAT(e.what(), testing::HasSubstr("rows == 4: rows 3"));
  }
}

TEST(Problems, AreRaisedTogetherOneLineEach) {
  Problems problems;
  EXPECT_NO_THROW(problems.raise());
  problems.add("a.yml:1:1: first");
  problems.add("a.yml:2:1: second {with braces}");
  try {
    problems.raise();
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "a.yml:1:1: first\na.yml:2:1: second {with braces}");
  }
}

}  // namespace
}  // namespace dml
