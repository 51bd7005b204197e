#include "train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/utf8.h"

namespace dml {
namespace {

using testing::HasSubstr;
using testing::Not;

ProgressState state() {
  return {{120, 0.5, 1.23456, 0.8123, 2e-4, 512, 100, 812.4, 0.63, 1'900'000'000}, 600, 42, 200};
}

/// What a terminal shows of a line: code points without color sequences.
int width(const std::string& line) {
  int cells = 0;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '\x1b') {
      i = line.find('m', i) + 1;
    } else {
      next_code_point(line, i);
      ++cells;
    }
  }
  return cells;
}

std::string contents(std::FILE* f) {
  std::fflush(f);
  std::rewind(f);
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), f));
  return text;
}

Progress::Options plain(std::FILE* f, std::int64_t interval) {
  return {.log_interval = interval, .out = f, .style = {}};
}

// A clock that the test sets.
struct TestClock {
  std::chrono::steady_clock::time_point time{};
  Progress::Now now() {
    return [this] { return time; };
  }
};

StepMetrics metrics_of(std::int64_t step) {
  StepMetrics m = state().last;
  m.step = step;
  return m;
}

TEST(ProgressBar, ShowsEveryFieldOnAWideTerminal) {
  EXPECT_EQ(
      progress_bar(state(), {true, false, true, 120}),
      "step 120/600  20% ████                  loss 1.2346  lr 2.00e-04  grad 0.812  812 tok/s  1.9 GB  0:42 < 3:20");
}

TEST(ProgressBar, NeverReachesTheLastColumn) {
  for (int columns = 1; columns < 140; ++columns) {
    for (bool unicode : {false, true}) {
      EXPECT_LE(width(progress_bar(state(), {true, true, unicode, columns})), std::max(0, columns - 1)) << columns;
    }
  }
}

TEST(ProgressBar, KeepsTheLossLongestWhenItIsNarrow) {
  const std::string line = progress_bar(state(), {true, false, false, 40});
  EXPECT_THAT(line, HasSubstr("loss 1.2346"));
  EXPECT_THAT(line, Not(HasSubstr("tok/s")));
}

TEST(ProgressBar, IsPlainAsciiWithoutUtf8AndColor) {
  const std::string line = progress_bar(state(), {true, false, false, 120});
  EXPECT_THAT(line, HasSubstr("####----------------"));
  EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }));
}

TEST(Progress, PrintsAPlainLineEveryIntervalIntoAFile) {
  std::FILE* f = std::tmpfile();
  {
    Progress progress(25, plain(f, 10));
    for (int s = 1; s <= 25; ++s) {
      StepMetrics m = state().last;
      m.step = s;
      progress.step(m);
    }
    progress.note("evaluation: loss 1.0");
  }
  const std::string text = contents(f);
  std::fclose(f);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos);
  for (const char* s : {"step 10/25  epoch 0.50", "step 20/25", "step 25/25", "evaluation: loss 1.0\n", "812 tok/s"}) {
    EXPECT_THAT(text, HasSubstr(s));
  }
}

// dml watch shows steps of the past.
TEST(Progress, LinesHaveTheTimeOfTheirSteps) {
  std::FILE* f = std::tmpfile();
  {
    Progress progress(2, plain(f, 1));
    StepMetrics m = metrics_of(1);
    m.time = 1795743989.5, m.step_s = 2;
    progress.step(m);
    m.step = 2, m.time += 65;
    progress.step(m);
    m.step = 2, m.time = 0;  // of a file without times
    progress.step(m);
  }
  const std::string text = contents(f);
  std::fclose(f);
  EXPECT_THAT(text, testing::StartsWith("2026-11-27T01:46:29Z  step 1/2"));
  EXPECT_THAT(text, HasSubstr("0:02 < 0:02\n2026-11-27T01:47:34Z  step 2/2"));
  EXPECT_THAT(text, HasSubstr("1:07 < 0:00\nstep 2/2"));
}

TEST(Progress, RedrawsOneLineAtMostTenTimesASecondAndStepsAsideForNotes) {
  std::FILE* f = std::tmpfile();
  {
    Progress progress(1000, {.out = f, .style = {true, false, true, 100}});
    for (int s = 1; s <= 1000; ++s) {
      StepMetrics m = state().last;
      m.step = s;
      progress.step(m);
    }
    progress.note("saved");
  }
  const std::string text = contents(f);
  std::fclose(f);
  EXPECT_LT(std::count(text.begin(), text.end(), '\r'), 50);
  EXPECT_THAT(text, HasSubstr("\r\x1b[Ksaved\n\rstep 1000/1000 100%"));
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, NeverIsSilentForMoreThanThirtySecondsWhereThereIsNoTerminal) {
  using std::chrono::seconds;
  std::FILE* f = std::tmpfile();
  TestClock clock;
  Progress::Options options = plain(f, 100);
  options.now = clock.now();
  {
    Progress progress(1000, options);
    clock.time += seconds(20);
    progress.step(metrics_of(1));  // too soon
    clock.time += seconds(11);
    progress.step(metrics_of(2));  // 31 s after the beginning
    clock.time += seconds(29);
    progress.part("training", 3, 1, 8);  // too soon
    clock.time += seconds(2);
    progress.part("training", 3, 2, 8);
    clock.time += seconds(31);
    progress.part("evaluation", 3, 5, 40);
    clock.time += seconds(10);
    progress.step(metrics_of(3));  // 10 s after a line
  }
  const std::string text = contents(f);
  std::fclose(f);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  for (const char* s : {"step 2/1000  epoch", "step 3/1000: training, micro-batch 2 of 8",
                        "step 3/1000: evaluation, micro-batch 5 of 40"})
    EXPECT_THAT(text, HasSubstr(s));
}

TEST(Progress, ModeDecidesWhatIsShown) {
  auto shown = [](ProgressMode mode, bool terminal) {
    std::FILE* f = std::tmpfile();
    {
      Progress progress(2, {.mode = mode, .out = f, .style = {terminal, false, true, 100}});
      progress.step(metrics_of(1));
      progress.note("a note");
      progress.step(metrics_of(2));
    }
    std::string text = contents(f);
    std::fclose(f);
    return text;
  };
  EXPECT_THAT(shown(ProgressMode::automatic, true), HasSubstr("\r"));
  EXPECT_THAT(shown(ProgressMode::automatic, false), Not(HasSubstr("\r")));
  EXPECT_THAT(shown(ProgressMode::bar, false), HasSubstr("\r"));
  EXPECT_THAT(shown(ProgressMode::plain, true), testing::AllOf(HasSubstr("step 1/2"), Not(HasSubstr("\r"))));
  EXPECT_EQ(shown(ProgressMode::none, true), "a note\n");
  EXPECT_EQ(shown(ProgressMode::silent, true), "");
}

TEST(Progress, ContinuesIfNothingCanBeWritten) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  Progress progress(2, plain(full, 1));
  progress.step(metrics_of(1));
  progress.note("saved");
  progress.step(metrics_of(2));
  progress.finish();
  std::fclose(full);
}

TEST(TerminalStyle, OfAFileIsPlain) {
  std::FILE* f = std::tmpfile();
  ::setenv("LC_ALL", "C.UTF-8", 1);
  const TerminalStyle style = terminal_style(fileno(f));
  std::fclose(f);
  EXPECT_FALSE(style.redraw);
  EXPECT_FALSE(style.color);
  EXPECT_TRUE(style.unicode);
  ::setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(terminal_style(0).unicode);
}

TEST(ProgressNumbers, AreShort) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(59.7), "1:00");
  EXPECT_EQ(clock_text(3 * 3600 + 7 * 60 + 11), "3:07:11");
  EXPECT_EQ(clock_text(-1), "?");
  EXPECT_EQ(count_text(812.4), "812");
  EXPECT_EQ(count_text(12345), "12.3k");
  EXPECT_EQ(count_text(2.5e6), "2.5M");
}

}  // namespace
}  // namespace dml
