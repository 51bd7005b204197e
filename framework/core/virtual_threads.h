// Work and span: how a program would scale on processors that are not there.
//
// While a VirtualThreads is alive, threads() is its count, so work is cut as for that many threads. Every tile then
// runs on the calling thread, and its processor time is measured. The tiles of each parallel_for are dealt to the
// virtual threads by the pool's own rule: each has an equal run of consecutive tiles and helps the next ones
// afterwards. Memory bandwidth, the clock rate under load and the start of a call are not part of the model.
//
// A step makes the same calls for every layer. Of each kind the first `runs` are run; later ones count as these, each
// tile at its shortest, and what they would have computed stays as it was. So every step runs the same calls, and the
// one before has touched their memory.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <span>

#include "core/profile.h"

namespace dml {

class VirtualThreads {
 public:
  static constexpr int kRunAll = std::numeric_limits<int>::max();
  /// `count` >= 1. Only one at a time, and none while tiles run. With `runs` below kRunAll results mean nothing, and
  /// what is computed must not decide which memory is read: profiling has to be on, whose scopes tell kinds apart.
  explicit VirtualThreads(int count, int runs = kRunAll);
  ~VirtualThreads();
  VirtualThreads(const VirtualThreads&) = delete;
  VirtualThreads& operator=(const VirtualThreads&) = delete;
};

/// Number of virtual threads, 0 without a VirtualThreads.
int virtual_threads();

/// Seconds until the last of `threads` threads is done with tiles that take `seconds` each.
double makespan(std::span<const double> seconds, int threads);

/// Seconds that the virtual threads have saved so far on this thread: time of all tiles less the makespan of each call.
double virtual_seconds_saved();

/// A call of parallel_for; those that are equal are of one kind.
struct VirtualCall {
  ProfiledOperation operation;
  const void* code = nullptr;
  std::int64_t tiles = 0;
  auto operator<=>(const VirtualCall&) const = default;
};
/// Adds a call, given the time of each of its tiles.
void add_virtual_call(const VirtualCall& call, std::span<const double> seconds);
/// Returns true if enough calls of this kind were measured; then this one is counted with their mean and need not run.
bool repeat_virtual_call(const VirtualCall& call);

/// Processor time of this thread in seconds. Other programs do not count in it.
double thread_seconds();
/// thread_seconds() plus the time of the calls that were not run.
double virtual_seconds();

}  // namespace dml
