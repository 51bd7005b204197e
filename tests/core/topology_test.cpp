#include "core/topology.h"

#include <gtest/gtest.h>

#include "core/affinity.h"
#include "core/error.h"

namespace dml {
namespace {

TEST(Topology, CountsTheComponentsOfAHost) {
  const Topology t = synthetic_topology("pack:2 numa:2 l3:2 core:4 pu:2");
  EXPECT_EQ(t.sockets, 2);
  EXPECT_EQ(t.numa_nodes, 4);
  EXPECT_EQ(t.cache_groups, 8);
  EXPECT_EQ(t.cores, 32);
  EXPECT_EQ(t.processors, 64);
  EXPECT_EQ(t.text(),
            "32 cores (64 hardware threads), 2 sockets, 4 NUMA nodes, 8 groups of cores with an L3 cache each");
  EXPECT_EQ(synthetic_topology("pack:1 numa:1 l3:1 core:6 pu:1").text(), "6 cores, 1 socket, 1 NUMA node, 1 L3 cache");
  EXPECT_THROW(synthetic_topology("socks:2"), UserError);
}

TEST(Topology, HasOnlyWhatItsProcessorsBelongTo) {
  const Topology t = synthetic_topology("pack:2 numa:2 l3:2 core:4 pu:2", "16-31");
  EXPECT_EQ(t.text(), "8 cores (16 hardware threads), 1 socket, 1 NUMA node, 2 groups of cores with an L3 cache each");
  ASSERT_EQ(t.each_core.size(), 8u);
  EXPECT_EQ(t.each_core[0].numa_node, 1);
  EXPECT_EQ(t.each_core[0].processors, (std::vector<int>{16, 17}));
  EXPECT_EQ(t.each_core[3].cache, t.each_core[0].cache);
  EXPECT_NE(t.each_core[4].cache, t.each_core[0].cache);
  EXPECT_THROW(synthetic_topology("core:2 pu:1", "7"), UserError);
  EXPECT_THROW(synthetic_topology("core:2 pu:1", "x"), UserError);
}

TEST(Topology, OfThisHostHasTheCoresOfThisProcess) {
  const Topology t = this_topology();
  EXPECT_EQ(t.cores, available_cores());
  EXPECT_EQ(t.processors, available_processors());
}

}  // namespace
}  // namespace dml
