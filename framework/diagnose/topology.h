// The shape of this host: sockets, NUMA nodes, groups of cores that share a last-level cache. From hwloc, as much as
// this process may use of it.
#pragma once

#include <string>

namespace dml {

struct Topology {
  int sockets = 0, numa_nodes = 0, cache_groups = 0;  // 0: the system does not say
  int cores = 1, processors = 1;                      // processors: hardware threads

  /// "16 cores (32 hardware threads), 2 sockets, 4 NUMA nodes, 8 groups with an L3 cache of their own".
  std::string text() const;
};

/// Of the processors that this process may run on.
Topology this_topology();
/// The topology of a description in hwloc's synthetic form, like "pack:2 numa:1 l3:2 core:4 pu:2". UserError.
Topology synthetic_topology(const std::string& description);

}  // namespace dml
