// What a person watches during training, on stderr.
//
// A terminal gets one line that is redrawn at most ten times a second:
//   step 120/600  20% ████▏               loss 1.234  lr 2.00e-04  grad 0.81  812 tok/s  1.9 GB  0:42 < 3:20
// and drops the least important fields where it is narrow. Anything else (a file, a CI log) gets plain
// lines with the time, one every log interval and no carriage return. Colour only on a terminal, without NO_COLOR.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "pipeline/metrics.h"

namespace dml {

struct TerminalStyle {
  bool redraw = false;  // a terminal that knows how to go back in its line
  bool colour = false;
  bool unicode = false;  // locale is UTF-8
  int columns = 80;
};

/// What stands behind a file descriptor: isatty, TERM, NO_COLOR, locale, window size.
TerminalStyle terminal_style(int fd);

/// Everything a line shows.
struct ProgressState {
  StepMetrics last;
  std::int64_t steps = 0;  // of the whole run
  double elapsed = 0;      // seconds of this process
  double left = 0;         // seconds
};

/// The redrawn line, at most `style.columns` − 1 wide, without CR.
std::string progress_bar(const ProgressState& state, const TerminalStyle& style);
/// The plain line, without the time in front.
std::string progress_text(const ProgressState& state);
/// "0:42", "12:05", "3:07:11".
std::string clock_text(double seconds);
/// "812", "12.3k".
std::string count_text(double value);
/// "640 MB", "1.9 GB".
std::string memory_text(std::size_t bytes);

class Progress {
 public:
  /// `steps` of the run, every `log_interval`-th is a plain line where there is no terminal.
  Progress(std::int64_t steps, std::int64_t log_interval, std::FILE* out = stderr);
  Progress(std::int64_t steps, std::int64_t log_interval, std::FILE* out, const TerminalStyle& style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics);
  /// A line of its own (an evaluation, a saved checkpoint): the bar steps aside for it.
  void note(std::string_view line);
  /// Leaves the last state on the screen. Also done when destroyed.
  void finish();

 private:
  void draw();
  void erase();

  ProgressState state_;
  std::int64_t log_interval_;
  std::FILE* out_;
  TerminalStyle style_;
  double step_seconds_ = 0;  // moving average of the steps alone, without evaluation and saving
  std::chrono::steady_clock::time_point started_, drawn_;
  bool on_screen_ = false, finished_ = false, printed_ = false;
};

}  // namespace dml
