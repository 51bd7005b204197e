// Where the pool's threads run: consecutive threads fill one group of cores after another, one thread a core. A group
// is the cores of one L3 cache in one NUMA node.
//
// Threads are bound to their group, not to single cores: within it caches and memory are equally near, and the system
// can move a thread away from a core that something else uses. Of every core only one hardware thread is used. Pages
// that a thread touches first stay in its node, and rows in its cache. No bit of a result depends on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "core/topology.h"

namespace dml {

/// automatic: bound if threads take all cores that the process may use, on hosts with several groups of cores. close:
/// bound also if cores are left over. none: where the system puts them.
enum class ThreadAffinity { automatic, close, none };

struct PlacementRequest {
  int threads = 1;
  ThreadAffinity affinity = ThreadAffinity::automatic;
  /// Ranks that may run on exactly the same processors, and the index of this one. Every rank takes cores of its own.
  int ranks = 1, rank = 0;
  /// Cores that a quota of processor time allows (available_cores()); 0: all.
  int quota = 0;
};

struct Placement {
  ThreadProcessors processors;  // of each thread; empty: not bound
  std::vector<int> nodes;       // the NUMA nodes that the threads run on, as the system counts them
  std::string text;             // "0–7 on L3 group 0, NUMA node 0; 8–15 on …", or why threads are not bound
};

/// A pure function of its arguments.
Placement place_threads(const Topology& host, const PlacementRequest& request);

/// Applies a placement: set_threads() and set_thread_nodes().
void apply_placement(int count, Placement placement);
/// Places the threads of the only process on this host, and applies the placement.
void set_placed_threads(int count, ThreadAffinity affinity = ThreadAffinity::automatic);

}  // namespace dml
