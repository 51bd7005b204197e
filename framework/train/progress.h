// The progress display of training, on stderr.
//
// A terminal gets one line that is redrawn at most ten times a second:
//   step 120/600  20% ████▏               loss 1.234  lr 2.00e-04  grad 0.81  812 tok/s  1.9 GB  0:42 < 3:20
// Narrow terminals drop the least important fields. Anything else (a file, a CI log, a launcher) gets plain lines with
// a time stamp and no carriage return: one every log interval, and one whenever 30 s have passed since the last, also
// within a step or an evaluation. Color is used only on a terminal, and not with NO_COLOR. Write errors are ignored: a
// full disk or a closed pipe costs lines, not the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "train/metrics.h"

namespace dml {

/// automatic: a bar on a terminal, plain lines elsewhere. none: notes only, no steps. silent: nothing.
enum class ProgressMode { automatic, bar, plain, none, silent };

struct TerminalStyle {
  bool redraw = false;  // the terminal supports carriage returns
  bool color = false;
  bool unicode = false;  // the locale is UTF-8
  int columns = 80;
};

/// The terminal behind a file descriptor: isatty, TERM, NO_COLOR, locale, window size.
TerminalStyle terminal_style(int fd);

/// The values of one line.
struct ProgressState {
  StepMetrics last;
  std::int64_t steps = 0;  // of the whole run
  double elapsed = 0;      // seconds since the start of the first step shown
  double left = 0;         // estimated seconds until the end
};

/// The redrawn line, at most `style.columns` − 1 wide, without CR.
std::string progress_bar(const ProgressState& state, const TerminalStyle& style);
/// The plain line, without the time stamp.
std::string progress_text(const ProgressState& state);
/// "0:42", "12:05", "3:07:11".
std::string clock_text(double seconds);
/// "812", "12.3k".
std::string count_text(double value);

class Progress {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;
  /// The longest time without a plain line.
  static constexpr auto kLongestSilence = std::chrono::seconds(30);

  struct Options {
    ProgressMode mode = ProgressMode::automatic;
    std::int64_t log_interval = 1;  // steps between plain lines
    std::FILE* out = stderr;
    TerminalStyle style = terminal_style(fileno(stderr));
    Now now = std::chrono::steady_clock::now;
  };

  /// `steps`: number of steps of the whole run.
  Progress(std::int64_t steps, Options options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics);
  /// Progress within step `step` or an evaluation (`what`): `done` of `total` micro-batches are finished.
  void part(std::string_view what, std::int64_t step, std::int64_t done, std::int64_t total);
  /// Prints a line of its own (an evaluation, a saved checkpoint); the bar is redrawn below it.
  void note(std::string_view line);
  /// Ends the display and leaves its last line on the screen. The destructor does the same.
  void finish();

 private:
  void draw();
  void erase();
  void write(std::string_view text) const;
  bool silent_for_long() const { return options_.now() - drawn_ >= kLongestSilence; }

  ProgressState state_;
  Options options_;
  bool bar_;
  double step_seconds_ = 0;  // moving average of the steps alone, without evaluation and saving
  double began_ = 0;         // when the first step shown started
  std::chrono::steady_clock::time_point drawn_;
  bool on_screen_ = false, finished_ = false, printed_ = false;
};

}  // namespace dml
