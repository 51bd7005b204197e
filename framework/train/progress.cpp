#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "core/clock.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/size_text.h"
#include "core/text.h"

namespace dml {

namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kBarWidth = 20;

bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = ascii_lower(environment(name));
    if (!value.empty()) return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

/// A bar with eight steps per cell in block characters, else of '#' and '-'.
std::string bar_text(double share, int width, bool unicode) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(share, 0.0, 1.0) * width * 8);
  const int full = eighths / 8;
  std::string bar;
  for (int i = 0; i < full; ++i) bar += unicode ? "█" : "#";
  int cells = full;
  if (unicode && eighths % 8) bar += kEighths[eighths % 8], ++cells;
  bar.append(static_cast<std::size_t>(width - cells), unicode ? ' ' : '-');
  return bar;
}

// The time stamp of a plain line; "" if the time is unknown.
std::string stamp(double time) {
  if (!(time > 0)) return "";
  const auto seconds = static_cast<std::time_t>(time);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ  ", &utc)};
}

// The reward for the progress line: the loss of rl: grpo is near 0 and tells nothing.
std::string reward_text(const StepMetrics& m) {
  for (const NamedValue& v : m.values)
    if (v.name == "reward") return fmt::format("  reward {:.4f}", v.value);
  return "";
}

}  // namespace

TerminalStyle terminal_style(int fd) {
  TerminalStyle style;
  const std::string term = environment("TERM");
  const bool dumb = term.empty() || term == "dumb";
  style.redraw = ::isatty(fd) && !dumb;
  style.color = style.redraw && environment("NO_COLOR").empty();
  style.unicode = utf8_locale();
  winsize window{};
  if (style.redraw && ::ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) style.columns = window.ws_col;
  return style;
}

std::string clock_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto s = static_cast<long long>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string count_text(double value) {
  if (value >= 999.5e3) return fmt::format("{:.1f}M", value / 1e6);
  return value >= 9999.5 ? fmt::format("{:.1f}k", value / 1e3) : fmt::format("{:.0f}", value);
}

std::string progress_bar(const ProgressState& state, const TerminalStyle& style) {
  const StepMetrics& m = state.last;
  const double share = state.steps > 0 ? static_cast<double>(m.step) / static_cast<double>(state.steps) : 0;
  const std::string all = fmt::format("{}", state.steps);
  const std::string head = fmt::format("step {:>{}}/{} {:3.0f}%", m.step, all.size(), all, std::floor(100 * share));
  // Fields by importance; those that do not fit are omitted, in the order of the line.
  struct Field {
    int place;
    std::string text;
  };
  const std::vector<Field> fields = {{0, fmt::format("loss {:.4f}{}", m.loss, reward_text(m))},
                                     {5, fmt::format("{} < {}", clock_text(state.elapsed), clock_text(state.left))},
                                     {3, fmt::format("{} tok/s", count_text(m.tok_s))},
                                     {2, fmt::format("grad {:.3g}", m.grad_norm)},
                                     {1, fmt::format("lr {:.2e}", m.lr)},
                                     {4, size_text(m.mem)}};
  // The bar's width depends on the window only, so that it does not change with the numbers beside it.
  const int bar_width = style.columns >= 110 ? kBarWidth : style.columns >= 60 ? kBarWidth / 2 : 0;
  const int beside = style.columns - 1 - static_cast<int>(head.size());
  int room = beside - (bar_width > 0 ? bar_width + 1 : 0);
  std::vector<Field> shown;
  for (const Field& field : fields) {
    const int need = static_cast<int>(field.text.size()) + 2;
    if (need > room) break;
    room -= need;
    shown.push_back(field);
  }
  std::sort(shown.begin(), shown.end(), [](const Field& a, const Field& b) { return a.place < b.place; });
  std::string line = head;
  if (bar_width > 0) {
    const std::string bar = bar_text(share, bar_width, style.unicode);
    line += style.color ? fmt::format(" \x1b[36m{}\x1b[0m", bar) : " " + bar;
  }
  for (const Field& field : shown) line += "  " + field.text;
  return beside >= 0 ? line : head.substr(0, static_cast<std::size_t>(std::max(0, style.columns - 1)));
}

std::string progress_text(const ProgressState& state) {
  const StepMetrics& m = state.last;
  return fmt::format("step {}/{}  epoch {:.2f}  loss {:.4f}{}  lr {:.2e}  grad {:.3g}  {} tok/s  {}  {} < {}", m.step,
                     state.steps, m.epoch, m.loss, reward_text(m), m.lr, m.grad_norm, count_text(m.tok_s),
                     size_text(m.mem), clock_text(state.elapsed), clock_text(state.left));
}

Progress::Progress(std::int64_t steps, Options options)
    : options_(std::move(options)),
      bar_(options_.mode == ProgressMode::bar || (options_.mode == ProgressMode::automatic && options_.style.redraw)),
      drawn_(options_.now() - (bar_ ? kRedraw : Clock::duration())) {
  options_.log_interval = std::max<std::int64_t>(1, options_.log_interval);
  state_.steps = steps;
}

Progress::~Progress() { finish(); }

void Progress::write(std::string_view text) const {
  if (std::fwrite(text.data(), 1, text.size(), options_.out) != text.size() || std::fflush(options_.out) != 0)
    std::clearerr(options_.out);
}

void Progress::step(const StepMetrics& metrics) {
  const auto now = options_.now();
  step_seconds_ = step_seconds_ == 0 ? metrics.step_s : 0.9 * step_seconds_ + 0.1 * metrics.step_s;
  if (state_.last.step == 0) began_ = metrics.time - metrics.step_s;
  state_.last = metrics;
  state_.elapsed = metrics.time - began_;
  state_.left = step_seconds_ * static_cast<double>(std::max<std::int64_t>(0, state_.steps - metrics.step));
  printed_ = false;
  if (bar_ ? now - drawn_ >= kRedraw
           : metrics.step % options_.log_interval == 0 || metrics.step == state_.steps || silent_for_long())
    draw();
}

void Progress::part(std::string_view what, std::int64_t step, std::int64_t done, std::int64_t total) {
  if (bar_ || options_.mode >= ProgressMode::none || !silent_for_long()) return;
  write(fmt::format("{}step {}/{}: {}, micro-batch {} of {}\n", stamp(unix_time()), step, state_.steps, what, done,
                    total));
  drawn_ = options_.now();
}

void Progress::draw() {
  if (options_.mode >= ProgressMode::none) return;
  if (bar_) {
    if (::isatty(fileno(options_.out)))
      options_.style.columns = terminal_style(fileno(options_.out)).columns;  // the window may have been resized
    write(fmt::format("\r{}\x1b[K", progress_bar(state_, options_.style)));
    on_screen_ = true;
  } else {
    write(fmt::format("{}{}\n", stamp(state_.last.time), progress_text(state_)));
  }
  drawn_ = options_.now();
  printed_ = true;
}

void Progress::erase() {
  if (on_screen_) write("\r\x1b[K");
  on_screen_ = false;
}

void Progress::note(std::string_view line) {
  if (options_.mode == ProgressMode::silent) return;
  erase();
  write(fmt::format("{}\n", line));
  if (bar_ && state_.last.step > 0) draw();
  else drawn_ = options_.now();
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (bar_ && state_.last.step > 0) {
    if (!printed_ || !on_screen_) draw();
    write("\n");
  }
}

}  // namespace dml
