// The memory that this process uses, and that the processes of a job may still allocate on this host, under the limits
// of the machine, the container and the batch job.
#pragma once

#include <cstddef>
#include <string>

namespace dml {

/// Resident memory of this process in bytes, now and at its peak (from /proc/self/status).
struct MemoryUse {
  std::size_t now = 0, peak = 0;
};
MemoryUse memory_use();
/// Resets MemoryUse::peak to the present use, where Linux allows it.
void forget_peak_memory();

/// In bytes: the smaller of the system's available memory and what the limits of the control groups leave; 0 if neither
/// is known.
std::size_t available_memory();

/// Whether the address space of the process is limited (`ulimit -v`, `-d`); then available_memory() says little about
/// what can be allocated.
bool addresses_limited();

/// The bytes that the control groups in `groups` (the text of /proc/self/cgroup) still allow, read from their files
/// below `root`; SIZE_MAX without a limit. Reclaimable file pages count as free.
std::size_t memory_left_in_groups(const std::string& groups, const std::string& root);

}  // namespace dml
