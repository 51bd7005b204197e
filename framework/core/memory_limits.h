// How much memory the processes of a job may still allocate on this host, under the limits of the machine, the
// container and the batch job.
#pragma once

#include <cstddef>
#include <string>

namespace dml {

/// Bytes: the smaller of the system's available memory and the remainder of the control groups' limits; 0 where neither
/// is known.
std::size_t available_memory();

/// Whether the address space of the process is limited (`ulimit -v`, `-d`), so that available_memory() is of little
/// use.
bool addresses_limited();

/// Bytes that the control groups named in `groups` (the text of /proc/self/cgroup) still allow, read from their files
/// below `root`; SIZE_MAX without a limit. Reclaimable file pages count as free.
std::size_t room_in_groups(const std::string& groups, const std::string& root);

}  // namespace dml
