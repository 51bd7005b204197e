// Time by operation: with DML_PROFILE=1 in the environment, `dml train` and `dml bench` print a table of operations at
// the end.
//
// A ProfileScope at the entry of an operation counts the call and its seconds without those of nested scopes, so the
// rows add up to the time of the outermost scope. While profiling is off it costs one branch. Every thread has its own
// table; the report shows the table of the thread that drives the model, whose time includes the wait for the workers
// of a kernel. `busy` is the time that all threads spent in its tiles; the rest of their time they waited, for other
// threads or for the serial part of the operation.
//
// With virtual threads (core/virtual_threads.h), seconds are the processor time of the single thread that does all the
// work, including calls that were not repeated, and `saved` is how much of it the virtual threads would have saved.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace dml {

/// Initially true if DML_PROFILE is set to anything but 0. To be changed between operations only.
extern bool profiling;

/// Adds bytes of stored weights that an operation reads, on any thread, to the current scope. For products of few rows,
/// whose speed is limited by memory bandwidth.
void count_weight_bytes(std::int64_t bytes);
/// Adds time that a thread spent in the tiles of a call of this thread to the current scope.
void count_busy_seconds(double seconds);

/// The operation of a scope. `name`: a string literal. `operations`: the floating-point operations of the call; 0 if
/// not meaningful. `width`: a size that distinguishes calls with the same number of operations.
struct ProfiledOperation {
  const char* name = nullptr;
  double operations = 0;
  std::int64_t width = 0;
  auto operator<=>(const ProfiledOperation&) const = default;
};

class ProfileScope {
 public:
  explicit ProfileScope(const char* name, double operations = 0, std::int64_t width = 0) {
    if (profiling) begin({name, operations, width});
  }
  ~ProfileScope() {
    if (what_.name) end();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  friend ProfiledOperation innermost_operation();
  void begin(const ProfiledOperation& what);
  void end();

  ProfiledOperation what_;
  double inside_ = 0, saved_inside_ = 0;  // seconds in nested scopes
  ProfileScope* outer_ = nullptr;
  double start_ = 0, saved_before_ = 0, busy_before_ = 0, busy_inside_ = 0;
  std::int64_t bytes_before_ = 0, bytes_inside_ = 0;
};

/// The operation of the innermost ProfileScope of this thread; empty without one and while profiling is off.
ProfiledOperation innermost_operation();

struct ProfileRow {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0, operations = 0, saved = 0, busy = 0;
  std::int64_t weight_bytes = 0;
};

/// Resets the counts of this thread.
void reset_profile();
/// The counts of this thread, in descending order of seconds.
std::vector<ProfileRow> profile_rows();
/// The rows as lines of text: name, calls, seconds, share, what part of the time of `threads` threads was waiting,
/// GFLOP/s if operations are known, GB/s if weight bytes are.
std::vector<std::string> profile_table(const std::vector<ProfileRow>& rows, int threads);

}  // namespace dml
