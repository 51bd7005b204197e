// InterleavedPages, checked by the memory policy that the system reports.
#include "core/page_policy.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace dml {
namespace {

class PagePolicy : public testing::Test {
 protected:
  void SetUp() override {
    int now = MPOL_DEFAULT;
    if (syscall(SYS_get_mempolicy, &now, nullptr, 0, nullptr, 0) != 0)
      GTEST_SKIP() << "this system has no memory policies";
    if (now != MPOL_DEFAULT) GTEST_SKIP() << "the test was started with a memory policy";
  }
  void TearDown() override {
    set_thread_nodes({});
    syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
  }

  // The policy of this thread, and the bits of nodes 0 to 63.
  static std::pair<int, unsigned long> policy() {
    int mode = -1;
    unsigned long nodes[128] = {};  // at least as many bits as the system has nodes
    EXPECT_EQ(syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, nullptr, 0), 0) << std::strerror(errno);
    return {mode, nodes[0]};
  }
};

// On a host without node 1, the system ignores that node.
TEST_F(PagePolicy, IsInterleavedWhileItsObjectExists) {
  set_thread_nodes({0, 1});
  {
    const InterleavedPages pages;
    EXPECT_EQ(policy().first, MPOL_INTERLEAVE);
    EXPECT_EQ(policy().second & 1, 1u);
  }
  EXPECT_EQ(policy().first, MPOL_DEFAULT);
}

TEST_F(PagePolicy, StaysAsItIsOnOneNode) {
  set_thread_nodes({0});
  const InterleavedPages pages;
  EXPECT_EQ(policy().first, MPOL_DEFAULT);
}

TEST_F(PagePolicy, StaysWhatTheProcessWasStartedWith) {
  const unsigned long first = 1;
  ASSERT_EQ(syscall(SYS_set_mempolicy, MPOL_BIND, &first, sizeof first * 8 + 1), 0);
  set_thread_nodes({0, 1});
  {
    const InterleavedPages pages;
    EXPECT_EQ(policy().first, MPOL_BIND);
  }
  EXPECT_EQ(policy().first, MPOL_BIND);
}

}  // namespace
}  // namespace dml
