#include "core/topology.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>

#include "core/affinity.h"
#include "core/error.h"
#include "core/parallel.h"

namespace dml {
namespace {

struct FreeHwloc {
  void operator()(hwloc_topology_t t) const { hwloc_topology_destroy(t); }
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Handle = std::unique_ptr<hwloc_topology, FreeHwloc>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeHwloc>;

Handle new_handle() {
  hwloc_topology_t made = nullptr;
  return Handle(hwloc_topology_init(&made) == 0 ? made : nullptr);
}

HostCore core_of(hwloc_topology_t t, hwloc_obj_t core) {
  HostCore out;
  out.numa_node = std::max(0, hwloc_bitmap_first(core->nodeset));
  if (const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_L3CACHE, core))
    out.cache = static_cast<int>(cache->logical_index);
  for (int p = hwloc_bitmap_first(core->cpuset); p >= 0; p = hwloc_bitmap_next(core->cpuset, p))
    out.processors.push_back(p);
  return out;
}

Topology described(hwloc_topology_t t) {
  auto number = [t](hwloc_obj_type_t type) { return std::max(0, hwloc_get_nbobjs_by_type(t, type)); };
  Topology out;
  out.sockets = number(HWLOC_OBJ_PACKAGE);
  out.numa_nodes = number(HWLOC_OBJ_NUMANODE);
  out.cache_groups = number(HWLOC_OBJ_L3CACHE);
  out.processors = std::max(1, number(HWLOC_OBJ_PU));
  const hwloc_obj_type_t core = number(HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (int i = 0; i < number(core); ++i)
    out.each_core.push_back(core_of(t, hwloc_get_obj_by_type(t, core, static_cast<unsigned>(i))));
  out.cores = std::max(1, number(core));
  return out;
}

// Removes what the processors do not belong to: cores, caches, NUMA nodes.
bool restrict_to(hwloc_topology_t t, hwloc_const_bitmap_t processors) {
  return hwloc_topology_restrict(t, processors, HWLOC_RESTRICT_FLAG_REMOVE_CPULESS) == 0;
}

}  // namespace

std::string Topology::text() const {
  std::string text = fmt::format("{} {}", cores, cores == 1 ? "core" : "cores");
  if (processors != cores) text += fmt::format(" ({} hardware threads)", processors);
  auto add = [&](int count, const char* one, const char* many) {
    if (count > 0) text += fmt::format(", {} {}", count, count == 1 ? one : many);
  };
  add(sockets, "socket", "sockets");
  add(numa_nodes, "NUMA node", "NUMA nodes");
  add(cache_groups, "L3 cache", "groups of cores with an L3 cache each");
  return text;
}

Topology this_topology() {
  const Handle handle = new_handle();
  const Bitmap mine(hwloc_bitmap_alloc());
  Topology plain;
  plain.cores = available_cores(), plain.processors = available_processors();
  if (!handle || !mine || hwloc_topology_load(handle.get()) != 0) return plain;
  for (const int p : process_processors()) hwloc_bitmap_set(mine.get(), static_cast<unsigned>(p));
  if (!process_processors().empty() && !restrict_to(handle.get(), mine.get())) return plain;
  return described(handle.get());
}

Topology synthetic_topology(const std::string& description, const std::string& processors) {
  const Handle handle = new_handle();
  if (!handle || hwloc_topology_set_synthetic(handle.get(), description.c_str()) != 0 ||
      hwloc_topology_load(handle.get()) != 0)
    throw UserError("'{}' describes no topology; expected hwloc's synthetic form, like pack:2 l3:2 core:4 pu:2",
                    description);
  const Bitmap some(hwloc_bitmap_alloc());
  if (!processors.empty() && (!some || hwloc_bitmap_list_sscanf(some.get(), processors.c_str()) != 0 ||
                              !restrict_to(handle.get(), some.get())))
    throw UserError("'{}' is no list of processors of '{}'; expected one like 0-7,12", processors, description);
  return described(handle.get());
}

}  // namespace dml
