#include "core/log.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

std::string said(auto&& deed) {
  testing::internal::CaptureStderr();
  deed();
  return testing::internal::GetCapturedStderr();
}

class Log : public testing::Test {
 protected:
  void TearDown() override {
    set_log_level(LogLevel::info);
    set_log_rank(0);
  }
};

TEST_F(Log, MarksWarningsAndErrors) {
  EXPECT_EQ(said([] { log_info("plain {}", 1); }), "plain 1\n");
  EXPECT_EQ(said([] { log_warning("odd"); }), "warning: odd\n");
  EXPECT_EQ(said([] { log_error("bad"); }), "error: bad\n");
}

TEST_F(Log, TextFromOutsideIsNoFormat) {
  EXPECT_EQ(said([] { log_line(LogLevel::info, "{} {:x} %s"); }), "{} {:x} %s\n");
}

TEST_F(Log, PrintsByLevel) {
  EXPECT_EQ(said([] { log_debug("fine"); }), "");
  set_log_level(LogLevel::error);
  EXPECT_EQ(said([] {
              log_warning("odd");
              log_error("bad");
            }),
            "error: bad\n");
  set_log_level(LogLevel::silent);
  EXPECT_EQ(said([] { log_error("bad"); }), "");
}

TEST_F(Log, OtherRanksPrintOnlyErrors) {
  set_log_rank(3);
  EXPECT_EQ(said([] {
              log_warning("odd");
              log_error("bad");
            }),
            "[rank 3] error: bad\n");
}

}  // namespace
}  // namespace dml
