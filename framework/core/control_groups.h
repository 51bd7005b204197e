// Control groups: what the container or batch job of this process may use. The limits of every group that it is in
// hold, so callers look at all of them.
#pragma once

#include <string>
#include <vector>

namespace dml {

struct ControlGroup {
  std::string folder;
  bool unified = false;  // version 2: one folder for all controllers
};

/// The text of /proc/self/cgroup.
std::string own_control_groups();
/// Folders below `root` of the groups in `groups` (lines "ID:CONTROLLERS:PATH") that may limit `controller`, and of
/// those around them.
std::vector<ControlGroup> control_groups(const std::string& groups, const std::string& root,
                                         const std::string& controller);
/// Processors' worth of time that the groups allow; 0 without a limit.
double processor_quota(const std::string& groups, const std::string& root);

}  // namespace dml
