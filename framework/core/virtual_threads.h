// Work and span: how a program would scale on processors that are not there.
//
// While a VirtualThreads is alive, threads() is its count, so work is cut as for that many threads. Every tile then
// runs on the calling thread, and its processor time is measured. The tiles of each parallel_for are dealt to the
// virtual threads by the pool's own rule: each has an equal run of consecutive tiles and helps the next ones
// afterwards. Memory bandwidth, the clock rate under load and the start of a call are not part of the model.
#pragma once

#include <span>

namespace dml {

class VirtualThreads {
 public:
  /// `count` >= 1. Only one at a time, and none while tiles run.
  explicit VirtualThreads(int count);
  ~VirtualThreads();
  VirtualThreads(const VirtualThreads&) = delete;
  VirtualThreads& operator=(const VirtualThreads&) = delete;
};

/// Number of virtual threads, 0 without a VirtualThreads.
int virtual_threads();

/// Seconds until the last of `threads` threads is done with tiles that take `seconds` each.
double makespan(std::span<const double> seconds, int threads);

/// Seconds that the virtual threads have saved so far on this thread: time of all tiles less the makespan of each call.
double virtually_saved();
/// Adds one call of parallel_for, given the time of each of its tiles.
void add_virtual_call(std::span<const double> seconds);

/// Processor time of this thread in seconds. Other programs do not count in it.
double thread_seconds();

}  // namespace dml
