#include "diagnose/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kTrain{"train", "my recipe.yml"};

std::string line(LaunchRequest request, std::int64_t cores, bool root = false) {
  request.command = kTrain;
  return shell_text(launch_line(request, {cores, root, "/usr/bin/dml"}));
}

TEST(Launch, GivesEveryRankItsShareOfTheCores) {
  EXPECT_EQ(line({.ranks = 2}, 8),
            "mpirun --quiet -np 2 --map-by slot:PE=4 --bind-to core --mca btl self,vader "
            "--mca plm '^rsh' /usr/bin/dml train 'my recipe.yml'");
  EXPECT_THAT(line({}, 8), HasSubstr("-np 8 --map-by slot:PE=1 --bind-to core"));
  EXPECT_THAT(line({.ranks = 3}, 8), HasSubstr("PE=2"));
  EXPECT_THAT(line({.threads = 4}, 8), HasSubstr("-np 2 --map-by slot:PE=4"));
  EXPECT_THAT(line({.threads = 4}, 2), HasSubstr("-np 1 --oversubscribe"));
}

TEST(Launch, BindsNothingWhereOneRankHasAllOrRanksShareCores) {
  EXPECT_THAT(line({.ranks = 1}, 8), HasSubstr("-np 1 --bind-to none"));
  EXPECT_THAT(line({.ranks = 4}, 2), HasSubstr("-np 4 --oversubscribe --bind-to none --mca mpi_yield_when_idle 1"));
  EXPECT_THAT(line({.ranks = 2, .threads = 4}, 4), HasSubstr("--oversubscribe"));
  EXPECT_THAT(line({.ranks = 2, .threads = 2}, 4), Not(HasSubstr("--oversubscribe")));
}

TEST(Launch, BindsNothingWithOnlySomeOfTheHostsCores) {
  const LaunchRequest two{.ranks = 2, .command = kTrain};
  EXPECT_THAT(shell_text(launch_line(two, {.cores = 4, .program = "dml", .whole = false})),
              HasSubstr("-np 2 --bind-to none"));
}

TEST(Launch, GivesEveryNumaNodeRanksWhereCoresAreLeftOver) {
  const LaunchHost host{.cores = 16, .program = "dml", .numa_nodes = 2};
  const auto text = [&](std::int64_t ranks, std::int64_t threads) {
    return shell_text(launch_line({.ranks = ranks, .threads = threads, .command = kTrain}, host));
  };
  EXPECT_THAT(text(2, 4), HasSubstr("--map-by numa:PE=4 --bind-to core"));
  EXPECT_THAT(text(2, 8), HasSubstr("--map-by slot:PE=8 --bind-to core"));
  EXPECT_THAT(text(1, 8), HasSubstr("--bind-to none"));
}

TEST(Launch, SaysWhyMpirunStartsNothing) {
  const std::string path = std::getenv("PATH");
  const LaunchRequest one{.ranks = 1};
  LaunchHost host = this_host();
  host.program = "true";
  const std::string here = launcher_problem(one, host);
  testing_tools::TemporaryFolder empty;
  setenv("PATH", empty.path().c_str(), 1);
  EXPECT_EQ(launcher_problem(one, host), "mpirun is not there");
  setenv("PATH", path.c_str(), 1);
  if (here == "mpirun is not there") GTEST_SKIP() << here;
  EXPECT_EQ(here, "");
  host.program = "false";  // ranks that cannot communicate
  EXPECT_EQ(launcher_problem(one, host), "mpirun cannot start 1 rank here");
  host.program = "true";
  testing_tools::TemporaryFolder folder;
  write_file(folder / "mpirun", "#!/bin/sh\nexit 1\n");
  ASSERT_EQ(chmod((folder / "mpirun").c_str(), 0755), 0);
  setenv("PATH", (folder.path() + ":" + path).c_str(), 1);
  EXPECT_EQ(launcher_problem(one, host), "mpirun cannot start 1 rank here");
  setenv("PATH", path.c_str(), 1);
}

// As in small containers: ranks of one host need no remote shell.
TEST(Launch, StartsRanksWithoutSsh) {
  const std::string path = std::getenv("PATH");
  testing_tools::TemporaryFolder folder;
  for (const std::string name : {"mpirun", "orted", "timeout"}) {
    std::string found;
    for (std::size_t at = 0; at <= path.size() && found.empty();) {
      const std::size_t end = std::min(path.find(':', at), path.size());
      const std::string file = path.substr(at, end - at) + "/" + name;
      if (file_exists(file)) found = file;
      at = end + 1;
    }
    if (found.empty()) GTEST_SKIP() << name << " is not there";
    std::filesystem::create_symlink(found, folder / name);
  }
  LaunchHost host = this_host();
  host.program = "/bin/true";
  setenv("PATH", folder.path().c_str(), 1);
  EXPECT_EQ(launcher_problem({.ranks = 2}, host), "");
  setenv("PATH", path.c_str(), 1);
}

TEST(Launch, PassesTheThreadsToTheRecipe) {
  EXPECT_THAT(line({.ranks = 2, .threads = 2, .pass_threads = false}, 4), testing::EndsWith("train 'my recipe.yml'"));
  EXPECT_THAT(line({.ranks = 2, .threads = 2}, 4), testing::EndsWith("train 'my recipe.yml' --threads 2"));
}

TEST(Launch, LetsRootRun) {
  EXPECT_THAT(line({.ranks = 2}, 2, true), HasSubstr("mpirun --quiet --allow-run-as-root "));
  EXPECT_THAT(line({.ranks = 2}, 2), Not(HasSubstr("root")));
}

TEST(Launch, ReachesOtherHosts) {
  testing_tools::TemporaryFolder folder;
  std::string hosts = folder / "hosts";
  write_file(hosts, "a slots=1\nb slots=1\n");
  std::string text = line({.hostfile = hosts, .interface = "eth1"}, 4);
  EXPECT_THAT(text, HasSubstr("--hostfile " + hosts + " --bind-to none --mca btl self,vader,tcp"));
  EXPECT_THAT(text, HasSubstr("btl_tcp_if_include eth1 --mca oob_tcp_if_include eth1"));
  EXPECT_THAT(line({.ranks = 2, .hostfile = hosts, .threads = 3}, 4),
              HasSubstr("-np 2 --map-by slot:PE=3 --bind-to core"));
  EXPECT_THAT(text, Not(HasSubstr("plm")));
  EXPECT_THROW(line({.hostfile = hosts + "-not-there"}, 4), UserError);
  write_file(hosts, "# node1 slots=2\n\n \t\n");
  EXPECT_THROW(line({.hostfile = hosts}, 4), UserError);
  write_file(hosts, "a.b-c\nme@10.0.0.2 slots = 4 max_slots=8  # two sockets\n");
  EXPECT_NO_THROW(line({.hostfile = hosts}, 4));
  for (const char* other : {"a slots=2\nbase_model: x\n", "Hosts of the cluster\n", "a 4\n", "a slots=4 8\n",
                            "a slots=x\n", "a slot=2\n", "a slots=0\n"}) {
    write_file(hosts, other);
    EXPECT_THROW(line({.hostfile = hosts}, 4), UserError) << other;
  }
}

TEST(Launch, RejectsContradictions) {
  EXPECT_THROW(line({.ranks = 0}, 4), UserError);
  EXPECT_THROW(line({.ranks = 2, .threads = 0}, 4), UserError);
  EXPECT_THROW(launch_line({}, {4, false, "dml"}), UserError);
  EXPECT_THROW(launch_line({.command = {"launch", "train"}}, {4, false, "dml"}), UserError);
}

TEST(Launch, TakesWhereATrainingResumesFrom) {
  std::vector<std::string> words{"train", "--resume", "none", "a.yml", "--resume=out/checkpoint-5", "--seed", "1"};
  EXPECT_EQ(take_resume(words), "out/checkpoint-5");
  EXPECT_EQ(words, (std::vector<std::string>{"train", "a.yml", "--seed", "1"}));
  EXPECT_EQ(take_resume(words), std::nullopt);
}

TEST(Launch, QuotesForAShell) { EXPECT_EQ(shell_text({"a", "it's", "", "b c"}), "a 'it'\\''s' '' 'b c'"); }

}  // namespace
}  // namespace dml
