#include "core/memory_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>

#include "core/control_groups.h"

namespace dml {
namespace {

// The number after `key` at the start of a line; SIZE_MAX if it is missing or not a number ("max").
std::size_t number_in(const std::string& path, const std::string& key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::size_t value = 0;
    if (line.starts_with(key) && std::sscanf(line.c_str() + key.size(), "%zu", &value) == 1) return value;
  }
  return SIZE_MAX;
}

struct Names {
  const char *limit, *usage, *droppable;
};
constexpr Names kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr Names kVersion2{"memory.max", "memory.current", "inactive_file "};

std::size_t room_in(const std::string& folder, const Names& names) {
  std::size_t limit = number_in(folder + "/" + names.limit), used = number_in(folder + "/" + names.usage);
  if (limit >= SIZE_MAX / 4 || used == SIZE_MAX) return SIZE_MAX;  // version 1 writes a huge number for "no limit"
  std::size_t droppable = number_in(folder + "/memory.stat", names.droppable);
  if (droppable != SIZE_MAX) used -= std::min(used, droppable);
  return limit - std::min(limit, used);
}

}  // namespace

bool addresses_limited() {
  for (auto what : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return true;
  }
  return false;
}

std::size_t memory_left_in_groups(const std::string& groups, const std::string& root) {
  std::size_t room = SIZE_MAX;
  for (const ControlGroup& group : control_groups(groups, root, "memory"))
    room = std::min(room, room_in(group.folder, group.unified ? kVersion2 : kVersion1));
  return room;
}

std::size_t available_memory() {
  std::size_t room = number_in("/proc/meminfo", "MemAvailable:");
  if (room != SIZE_MAX) room *= 1024;
  room = std::min(room, memory_left_in_groups(own_control_groups(), "/sys/fs/cgroup"));
  return room == SIZE_MAX ? 0 : room;
}

MemoryUse memory_use() {
  MemoryUse use;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::size_t kb = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %zu", &kb) == 1) use.peak = kb * 1024;
    if (std::sscanf(line.c_str(), "VmRSS: %zu", &kb) == 1) use.now = kb * 1024;
  }
  return use;
}

void forget_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace dml
