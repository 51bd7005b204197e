#include "core/page_policy.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace dml {
namespace {

std::vector<int> thread_nodes;

using Word = unsigned long;  // the system calls take a set of nodes as bits in an array of these
constexpr std::size_t kWordBits = sizeof(Word) * CHAR_BIT;

}  // namespace

void set_thread_nodes(std::vector<int> nodes) { thread_nodes = std::move(nodes); }

InterleavedPages::InterleavedPages() {
  if (thread_nodes.size() < 2) return;
  int before = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &before, nullptr, 0, nullptr, 0) != 0 || before != MPOL_DEFAULT) return;
  std::vector<Word> set(static_cast<std::size_t>(std::ranges::max(thread_nodes)) / kWordBits + 1);
  for (const int node : thread_nodes)
    set[static_cast<std::size_t>(node) / kWordBits] |= Word{1} << static_cast<std::size_t>(node) % kWordBits;
  // The system call reads one bit fewer than its last argument.
  active_ = syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, set.data(), set.size() * kWordBits + 1) == 0;
}

InterleavedPages::~InterleavedPages() {
  if (active_) syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
}

}  // namespace dml
