// Time by operation: with DML_PROFILE=1 in the environment `dml train` and `dml bench` end with a table of
// operations.
//
// A ProfileScope at the entry of an operation counts the call and its own seconds, without those of nested scopes, so
// the rows add up to the outermost scope. Switched off it costs one branch. Every thread has its own table; the report
// shows that of the thread that drives the model, since the workers of a kernel run within the time of that kernel.
//
// With virtual threads (core/virtual_threads.h) seconds are the processor time of the one thread that does all the
// work, calls that were not run again included, and `saved` is how much of it they would have saved.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace dml {

/// On from the start when DML_PROFILE is set to something else than 0. To be switched between operations only.
extern bool profiling;

/// Counts bytes of stored weights that an operation reads, on any thread, for the scope that it is within. For products
/// of few rows, whose limit is the memory's rate.
void count_weight_bytes(std::int64_t bytes);

/// The operation of a scope. `name`: a literal. `operations`: floating-point operations that the call has to do,
/// where that means something. `width`: a size that tells calls of as many operations apart.
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
  double inside_ = 0, saved_inside_ = 0;  // in scopes within this one
  ProfileScope* outer_ = nullptr;
  double start_ = 0, saved_before_ = 0;
  std::int64_t bytes_before_ = 0, bytes_inside_ = 0;
};

/// The innermost ProfileScope of this thread; empty without one, or while profiling is off.
ProfiledOperation innermost_operation();

struct ProfileRow {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0, operations = 0, saved = 0;
  std::int64_t weight_bytes = 0;
};

/// Resets the counts of this thread.
void reset_profile();
/// The counts of this thread, in descending order of seconds.
std::vector<ProfileRow> profile_rows();
/// The rows as lines: name, calls, seconds, share, GFLOP/s where operations are known, GB/s of weights where their
/// bytes are.
std::vector<std::string> profile_table(const std::vector<ProfileRow>& rows);

}  // namespace dml
