#include "core/control_groups.h"

#include <fstream>
#include <sstream>

#include "core/lines.h"

namespace dml {
namespace {

// The quota of a group ÷ its period, both in microseconds; "max" and -1 mean no quota.
double quota_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.unified) {
    std::ifstream file(group.folder + "/cpu.max");
    file >> quota >> period;
  } else {
    std::ifstream(group.folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(group.folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

std::string own_control_groups() {
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream groups;
  groups << file.rdbuf();
  return groups.str();
}

std::vector<ControlGroup> control_groups(const std::string& groups, const std::string& root,
                                         const std::string& controller) {
  std::vector<ControlGroup> out;
  for (const auto [number, line] : Lines(groups)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + controller + ",") == controllers.npos) continue;
    // Inside a container the path may be that of the host, of which only the top folder of the mount is visible.
    for (std::string path(line.substr(second + 1));; path.resize(path.rfind('/'))) {
      out.push_back({root + (unified ? "" : "/" + controller) + path, unified});
      if (path.rfind('/') == path.npos) break;
    }
  }
  return out;
}

double processor_quota(const std::string& groups, const std::string& root) {
  double least = 0;
  for (const ControlGroup& group : control_groups(groups, root, "cpu"))
    if (const double quota = quota_of(group); quota > 0 && (least == 0 || quota < least)) least = quota;
  return least;
}

}  // namespace dml
