// The memory policy of Linux (set_mempolicy(2)) on hosts with several NUMA nodes.
#pragma once

#include <vector>

namespace dml {

/// Sets the NUMA nodes that InterleavedPages uses: those that the threads of this process run on, as the system counts
/// them.
void set_thread_nodes(std::vector<int> nodes);

/// While an object exists, pages that the calling thread touches first are interleaved over the nodes of
/// set_thread_nodes(). It is meant for weights: one thread reads them from files, and all threads use them. Without
/// interleaving, all pages would be in the memory of that thread's node. An object does nothing if there are fewer than
/// two nodes, if the process was started under a memory policy (numactl), or if the system refuses.
class InterleavedPages {
 public:
  InterleavedPages();
  ~InterleavedPages();
  InterleavedPages(const InterleavedPages&) = delete;
  InterleavedPages& operator=(const InterleavedPages&) = delete;

 private:
  bool active_ = false;
};

}  // namespace dml
