// Control groups (cgroups), by which a container or a batch system limits this process. The limits of every group on
// the path from the root apply, so callers must check all of them.
#pragma once

#include <string>
#include <vector>

namespace dml {

struct ControlGroup {
  std::string folder;
  bool unified = false;  // cgroup v2: one folder for all controllers
};

/// The text of /proc/self/cgroup.
std::string own_control_groups();
/// The folders below `root` of the groups in `groups` (lines "ID:CONTROLLERS:PATH") and of their ancestors that may
/// limit `controller`.
std::vector<ControlGroup> control_groups(const std::string& groups, const std::string& root,
                                         const std::string& controller);
/// The processor time that the groups allow, in processors (2.5: two and a half); 0 without a limit.
double processor_quota(const std::string& groups, const std::string& root);

}  // namespace dml
