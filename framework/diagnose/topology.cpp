#include "diagnose/topology.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/parallel.h"

namespace dml {
namespace {

struct Free {
  void operator()(hwloc_topology_t t) const { hwloc_topology_destroy(t); }
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Handle = std::unique_ptr<hwloc_topology, Free>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Free>;

Handle new_handle() {
  hwloc_topology_t made = nullptr;
  return Handle(hwloc_topology_init(&made) == 0 ? made : nullptr);
}

Topology counts(hwloc_topology_t t) {
  auto number = [t](hwloc_obj_type_t type) { return std::max(0, hwloc_get_nbobjs_by_type(t, type)); };
  Topology out;
  out.sockets = number(HWLOC_OBJ_PACKAGE);
  out.numa_nodes = number(HWLOC_OBJ_NUMANODE);
  out.cache_groups = number(HWLOC_OBJ_L3CACHE);
  out.processors = std::max(1, number(HWLOC_OBJ_PU));
  out.cores = number(HWLOC_OBJ_CORE) > 0 ? number(HWLOC_OBJ_CORE) : out.processors;
  return out;
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
  if (hwloc_get_cpubind(handle.get(), mine.get(), HWLOC_CPUBIND_PROCESS) == 0)
    hwloc_topology_restrict(handle.get(), mine.get(), 0);
  return counts(handle.get());
}

Topology synthetic_topology(const std::string& description) {
  const Handle handle = new_handle();
  if (!handle || hwloc_topology_set_synthetic(handle.get(), description.c_str()) != 0 ||
      hwloc_topology_load(handle.get()) != 0)
    throw UserError("'{}' describes no topology; expected hwloc's synthetic form, like pack:2 l3:2 core:4 pu:2",
                    description);
  return counts(handle.get());
}

}  // namespace dml
