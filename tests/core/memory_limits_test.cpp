#include "core/memory_limits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "core/control_groups.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

class Groups : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder / path).parent_path());
    write_file(folder / path, text);
  }
  testing_tools::TemporaryFolder folder;
  const std::string& root = folder.path();
};

TEST_F(Groups, LimitMemoryByTheTightestOne) {
  write("jobs/memory.max", "4000\n");
  write("jobs/memory.current", "1000\n");
  write("jobs/7/memory.max", "3000\n");
  write("jobs/7/memory.current", "800\n");
  write("jobs/7/memory.stat", "anon 300\ninactive_file 200\n");
  EXPECT_EQ(memory_left_in_groups("0::/jobs/7\n", root), 2400u);
  EXPECT_EQ(memory_left_in_groups("0::/jobs/8\n", root), 3000u) << "a path that is not mounted: its parents count";
  write("jobs/memory.current", "3900\n");
  EXPECT_EQ(memory_left_in_groups("0::/jobs/7\n", root), 100u);
}

TEST_F(Groups, OfTheFirstVersionCountToo) {
  write("memory/batch/memory.limit_in_bytes", "5000\n");
  write("memory/batch/memory.usage_in_bytes", "6000\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.usage_in_bytes", "10\n");
  EXPECT_EQ(memory_left_in_groups("9:cpu,cpuacct:/\n4:memory:/batch\n0::/\n", root), 0u);
  EXPECT_EQ(memory_left_in_groups("4:memory:/\n", root), SIZE_MAX);
}

TEST_F(Groups, WithoutALimitLeaveEverything) {
  write("memory.max", "max\n");
  write("memory.current", "10\n");
  EXPECT_EQ(memory_left_in_groups("0::/\n", root), SIZE_MAX);
  EXPECT_EQ(memory_left_in_groups("nonsense\n", root), SIZE_MAX);
  EXPECT_GT(available_memory(), 0u);
}

TEST_F(Groups, LimitProcessorsByTheTightestOne) {
  write("jobs/cpu.max", "800000 100000\n");
  write("jobs/7/cpu.max", "250000 100000\n");
  write("jobs/8/cpu.max", "max 100000\n");
  EXPECT_EQ(processor_quota("0::/jobs/7\n", root), 2.5);
  EXPECT_EQ(processor_quota("0::/jobs/8\n", root), 8);
  EXPECT_EQ(processor_quota("0::/elsewhere\n", root), 0);
  write("cpu/batch/cpu.cfs_quota_us", "50000\n");
  write("cpu/batch/cpu.cfs_period_us", "100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processor_quota("9:cpu,cpuacct:/batch\n", root), 0.5);
  EXPECT_EQ(processor_quota("9:cpu,cpuacct:/\n", root), 0);
}

}  // namespace
}  // namespace dml
