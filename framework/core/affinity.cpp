#include "core/affinity.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "core/control_groups.h"

namespace dml {
namespace {

std::atomic<bool> any_bound{false};

bool set_affinity(std::span<const int> processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int p : processors)
    if (p >= 0 && p < CPU_SETSIZE) CPU_SET(p, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace

const std::vector<int>& process_processors() {
  static const std::vector<int> all = [] {
    std::vector<int> out;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return out;
    for (int p = 0; p < CPU_SETSIZE; ++p)
      if (CPU_ISSET(p, &set)) out.push_back(p);
    return out;
  }();
  return all;
}

bool bind_this_thread(std::span<const int> processors) {
  process_processors();  // before the first mask changes
  any_bound = true;
  return set_affinity(processors);
}

void unbind_this_thread() {
  if (any_bound) set_affinity(process_processors());
}

int available_cores() {
  std::set<std::string> cores;
  for (const int p : process_processors()) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", p));
    std::string siblings;
    cores.insert(std::getline(file, siblings) ? siblings : fmt::format("{}", p));
  }
  const int found = cores.empty() ? available_processors() : static_cast<int>(cores.size());
  // With more threads than its quota allows, a container's threads are throttled for a part of every period.
  static const double quota = processor_quota(own_control_groups(), "/sys/fs/cgroup");
  return quota > 0 ? std::min(found, static_cast<int>(std::ceil(quota))) : found;
}

int available_processors() {
  if (!process_processors().empty()) return static_cast<int>(process_processors().size());
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace dml
