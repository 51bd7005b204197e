// Errors, and the exit code each of them ends the program with.
//
// UserError is for what the user gave us (recipe, data, files): its text is printed as it is, one line, with the place,
// what was expected and the nearest valid choice. DML_CHECK is for our own mistakes. Nothing else is thrown on purpose.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dml {

enum class ExitCode : int {
  ok = 0,
  internal = 1,      // a mistake of ours
  user = 2,          // recipe, data, model files, command line
  below_limit = 3,   // dml evaluate: a metric is below its fail_below
  diverged = 4,      // loss or gradients are not numbers any more
  io = 5,            // disk full, read-only, input/output error
  distributed = 6,   // a rank is lost, late or of another opinion
  memory = 7,        // none left while running; a plan that does not fit is the user's
  stopped = 75,      // stopped by a signal after saving; resume goes on
  interrupted = 130  // second Ctrl-C
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

class UserError : public Error {
 public:
  explicit UserError(const std::string& text) : Error(ExitCode::user, text) {}
  template <class... Args>
  explicit UserError(fmt::format_string<Args...> text, Args&&... args)
      : Error(ExitCode::user, fmt::format(text, std::forward<Args>(args)...)) {}
};

class IoError : public Error {
 public:
  explicit IoError(const std::string& text) : Error(ExitCode::io, text) {}
  /// "PATH: what: strerror(errno)"; reads errno at the call.
  IoError(const std::string& path, const std::string& what);
};

/// Collects problems so that all of them are reported at once: one line each.
class Problems {
 public:
  void add(std::string line) { lines_.push_back(std::move(line)); }
  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  /// Throws one UserError with all lines when there are any.
  void raise() const;

 private:
  std::vector<std::string> lines_;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& text);

}  // namespace dml

/// An invariant of ours: DML_CHECK(a == b) or DML_CHECK(a == b, "rows {} and {}", a, b).
#define DML_CHECK(condition, ...)                                                         \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::dml::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
