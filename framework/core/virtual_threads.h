// Estimates how the program would scale to more processors than this machine has (work and span).
//
// While a VirtualThreads object exists, threads() returns its count, so work is split for that many threads. Every tile
// runs on the calling thread, and its processor time is measured. The tiles of each parallel_for are assigned to the
// virtual threads by the rule of the real pool: each thread has an equal share of consecutive tiles and then helps the
// next threads. Memory bandwidth, the clock rate under load and the latency of starting a call are not modeled.
//
// A step makes the same calls for every layer. The first `runs` calls of each kind run; later ones do not, and their
// outputs stay unchanged. So every step runs the same calls, on memory that the previous step has touched. A call
// ends with its slowest tile, and on a busy machine some tiles are slow by chance. So every call counts with the
// shortest measured time of each tile.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "core/parallel.h"

namespace dml {

class VirtualThreads {
 public:
  static constexpr int kRunAll = std::numeric_limits<int>::max();
  /// `count` >= 1. At most one object at a time, created while no tiles run. With `runs` below kRunAll, results are
  /// meaningless, so they must not decide which memory is read; profiling must be on, since its scopes distinguish the
  /// kinds of calls.
  explicit VirtualThreads(int count, int runs = kRunAll);
  ~VirtualThreads();
  VirtualThreads(const VirtualThreads&) = delete;
  VirtualThreads& operator=(const VirtualThreads&) = delete;
};

/// The number of virtual threads; 0 without a VirtualThreads object.
int virtual_threads();

/// Seconds until the last of `threads` threads finishes; tile i takes seconds[i].
double makespan(std::span<const double> seconds, int threads);

/// Seconds that the virtual threads have saved so far on this thread: the time of all tiles minus the makespan of each
/// call.
double virtual_seconds_saved();

/// What parallel_for does while virtual threads exist: runs the tiles on this thread and measures them, or only counts
/// them if enough calls of the same kind (operation, code of the tile, number of tiles) were measured.
void run_virtually(std::int64_t tiles, TileFunction tile);

/// Processor time of this thread in seconds; other programs do not affect it.
double thread_seconds();
/// Processor time of this thread, where a call of parallel_for takes the sum of its tiles' times: calls that were not
/// run are included, and the time that measuring takes is not.
double virtual_seconds();

}  // namespace dml
