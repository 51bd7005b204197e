// How much memory the processes of a job may still take on this host: a container's or a batch job's limit counts like
// the machine's own.
#pragma once

#include <cstddef>
#include <string>

namespace dml {

/// The lesser of what the system calls available and what the control groups leave, bytes; 0 where neither says
/// anything.
std::size_t available_memory();

/// Whether the process's addresses are limited (`ulimit -v`, `-d`): what is available then says little.
bool addresses_limited();

/// What the control groups leave that `groups` names, a text like /proc/self/cgroup, with their files below `root`;
/// SIZE_MAX where they set no limit. File pages that they may drop count as free.
std::size_t room_in_groups(const std::string& groups, const std::string& root);

}  // namespace dml
