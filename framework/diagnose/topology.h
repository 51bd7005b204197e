// The topology of this host: sockets, NUMA nodes, groups of cores that share a last-level cache. Read from hwloc,
// limited to what this process may use.
#pragma once

#include <string>

namespace dml {

struct Topology {
  int sockets = 0, numa_nodes = 0, cache_groups = 0;  // 0: unknown
  int cores = 1, processors = 1;                      // processors: hardware threads

  /// "16 cores (32 hardware threads), 2 sockets, 4 NUMA nodes, 8 groups with an L3 cache of their own".
  std::string text() const;
};

/// The topology of the processors that this process may use.
Topology this_topology();
/// Parses a topology in hwloc's synthetic format, like "pack:2 numa:1 l3:2 core:4 pu:2". UserError.
Topology synthetic_topology(const std::string& description);

}  // namespace dml
