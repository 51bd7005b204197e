// Errors, and the exit code of the program for each of them.
//
// UserError reports mistakes in the user's input (recipe, data, files). It holds a list of problems; each is printed as
// one line with its place, what was expected and the nearest valid choice. DML_CHECK reports bugs in dml.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dml {

enum class ExitCode : int {
  ok = 0,
  internal = 1,      // a bug in dml
  user = 2,          // a mistake in the recipe, the data, the model files or the command line
  below_limit = 3,   // dml evaluate: a metric is below its fail_below
  diverged = 4,      // loss or gradients are NaN or infinite
  io = 5,            // disk full, read-only file system, input/output error
  distributed = 6,   // a rank was lost, timed out, or disagrees with the others
  memory = 7,        // out of memory while running; a plan that does not fit is `user`
  stopped = 75,      // stopped by a signal after saving a checkpoint; the run can be resumed
  interrupted = 130  // by Ctrl-C while output was written; in training, by a second Ctrl-C
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// One mistake in the user's input.
struct Problem {
  std::string key;    // the setting concerned ("datasets.0.path" of a recipe); "" if there is none
  std::string place;  // "recipe.yml:4:3", "rows.jsonl:17", "command line"; "" if unknown or if `text` begins with it
  std::string text;

  /// "PLACE: TEXT"
  std::string line() const { return place.empty() ? text : place + ": " + text; }
};

class UserError : public Error {
 public:
  explicit UserError(const std::string& text) : UserError(std::vector<Problem>{{"", "", text}}) {}
  template <class... Args>
  explicit UserError(fmt::format_string<Args...> text, Args&&... args)
      : UserError(fmt::format(text, std::forward<Args>(args)...)) {}
  explicit UserError(std::vector<Problem> problems);

  /// A copy whose problems without a key have this one: throw UserError(…).about("lora_r").
  UserError about(const std::string& key) const;
  const std::vector<Problem>& problems() const& { return *problems_; }
  std::vector<Problem> problems() && { return *problems_; }  // for (auto& p : error.about("x").problems())

 private:
  std::shared_ptr<const std::vector<Problem>> problems_;  // shared: copies of an exception must not throw
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
  void add(Problem problem) { all_.push_back(std::move(problem)); }
  void add(std::string text) { all_.push_back({"", "", std::move(text)}); }
  bool empty() const { return all_.empty(); }
  const std::vector<Problem>& all() const { return all_; }
  /// Throws one UserError with all problems, if there are any.
  void raise() const {
    if (!all_.empty()) throw UserError(all_);
  }

 private:
  std::vector<Problem> all_;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& text);

}  // namespace dml

/// An internal invariant: DML_CHECK(a == b) or DML_CHECK(a == b, "rows {} and {}", a, b).
#define DML_CHECK(condition, ...)                                                         \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::dml::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
