// Where Linux places pages on hosts with several NUMA nodes.
#pragma once

#include <vector>

namespace dml {

/// Names the NUMA nodes on which the threads of this process run, as the system counts them, for InterleavedPages.
void set_thread_nodes(std::vector<int> nodes);

/// While it exists, pages that the calling thread touches first are spread evenly over the nodes of set_thread_nodes():
/// for weights, which one thread reads from files and all threads use. Otherwise they would all be in the memory of
/// that thread's node. Does nothing with fewer than two nodes, or if the process was started with a policy of its own
/// (numactl), or if the system refuses.
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
