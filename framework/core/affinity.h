// The processors (hardware threads) that threads may run on. A launcher, taskset or a container limits the process;
// within that, the pool may bind its threads (core/placement.h).
#pragma once

#include <span>
#include <vector>

namespace dml {

/// The processors of the affinity mask that this process started with, ascending; empty: unknown.
const std::vector<int>& process_processors();
/// The number of cores in that mask. Two hardware threads of a core count as one, since one thread keeps the core's
/// vector units busy in a matrix product. At most what a container's quota of processor time keeps busy.
int available_cores();
/// The number of hardware threads in that mask.
int available_processors();

/// Binds the calling thread to some of them. Threads that it starts inherit that. False where the system refuses.
bool bind_this_thread(std::span<const int> processors);
/// The calling thread may run on all of process_processors() again. To be called by threads and processes that do not
/// belong to the pool and may have been started by a bound thread. Async-signal-safe.
void unbind_this_thread();

}  // namespace dml
