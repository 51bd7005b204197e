// The topology of this host: sockets, NUMA nodes, groups of cores that share a last-level cache. Read from hwloc,
// limited to what this process may use.
#pragma once

#include <string>
#include <vector>

namespace dml {

/// A core of the host.
struct HostCore {
  int numa_node = 0;            // as the system counts them
  int cache = -1;               // the L3 cache; -1: unknown
  std::vector<int> processors;  // its hardware threads, as the system counts them; at least one
};

struct Topology {
  int sockets = 0, numa_nodes = 0, cache_groups = 0;  // 0: unknown
  int cores = 1, processors = 1;                      // processors: hardware threads
  std::vector<HostCore> each_core = {};               // neighbors follow each other; empty: unknown

  /// "16 cores (32 hardware threads), 2 sockets, 4 NUMA nodes, 8 groups of cores with an L3 cache each".
  std::string text() const;
};

/// The topology of the processors that this process may use (process_processors()).
Topology this_topology();
/// Parses a topology in hwloc's synthetic format, like "pack:2 numa:1 l3:2 core:4 pu:2", and limits it to `processors`
/// ("0-7,12"; "": all). UserError.
Topology synthetic_topology(const std::string& description, const std::string& processors = "");

}  // namespace dml
