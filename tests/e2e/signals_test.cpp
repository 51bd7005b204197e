// Signals: a checkpoint on SIGUSR1, a checkpoint and exit 75 on SIGUSR2 and SIGTERM; a rank that is killed ends them all.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;

bool soon(double seconds, const std::function<bool()>& reached) {
  for (int i = 0; i < seconds * 200; ++i) {
    if (reached()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return reached();
}

class Signals : public Workshop {
 protected:
  Keys long_run(int steps) const {
    return tiny_lora() + Keys{{"max_steps", std::to_string(steps)}, {"save_strategy", "no"}, {"eval_steps", "1000"}};
  }
  bool steps_done(const std::string& out, int steps) const {
    std::string path = at(out + "/metrics.jsonl");
    if (!file_exists(path)) return false;
    std::string text = read_file(path);
    return std::ranges::count(text, '\n') > steps;
  }
  std::vector<fs::path> checkpoints(const std::string& out) const {
    std::vector<fs::path> found;
    for (auto& entry : fs::directory_iterator(at(out)))
      if (entry.path().filename().string().starts_with("checkpoint-") && file_exists(entry.path() / "manifest.json"))
        found.push_back(entry.path());
    return found;
  }

  void stop_and_go_on(int ranks, int signal) {
    const int steps = 300;
    ASSERT_EQ(train(1, recipe("whole.yml", long_run(steps) + Keys{{"output_dir", at("whole")}})).exit, 0);
    std::string r = recipe("r.yml", long_run(steps));
    Child child(on_ranks(ranks, {"train", r}));
    ASSERT_TRUE(soon(30, [&] { return steps_done("out", 5); }));
    child.signal(signal);
    Ended e = child.wait();
    EXPECT_EQ(e.exit, 75) << e.err;
    EXPECT_THAT(e.err, HasSubstr("--resume auto"));
    EXPECT_EQ(checkpoints("out").size(), 1u);
    EXPECT_FALSE(file_exists(at("out/adapter_model.safetensors")));
    Ended resumed = train(ranks, r, {"--resume", "auto"});
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_EQ(results_in(at("out")), results_in(at("whole")));
    EXPECT_EQ(numbers_of(at("out/metrics.jsonl")), numbers_of(at("whole/metrics.jsonl")));
  }
};

TEST_F(Signals, StopWithoutSavingWhereThatIsNotWanted) {
  std::string r = recipe("r.yml", long_run(3000) + Keys{{"save_on_signal", "false"}});
  for (int signal : {SIGTERM, SIGUSR2}) {
    Child child(on_ranks(1, {"train", r}));
    ASSERT_TRUE(soon(30, [&] { return steps_done("out", 5); }));
    child.signal(signal);
    Ended e = child.wait();
    EXPECT_EQ(e.exit, 75) << e.err;
    EXPECT_THAT(e.err, HasSubstr("nothing was saved"));
    EXPECT_TRUE(checkpoints("out").empty());
    std::filesystem::remove_all(at("out"));
  }
}

TEST_F(Signals, Usr1SavesAndGoesOn) {
  Child child(on_ranks(1, {"train", recipe("r.yml", long_run(300))}));
  ASSERT_TRUE(soon(30, [&] { return steps_done("out", 3); }));
  child.signal(SIGUSR1);
  EXPECT_TRUE(soon(10, [&] { return !checkpoints("out").empty(); }));
  Ended e = child.wait();
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(checkpoints("out").size(), 1u);
  EXPECT_TRUE(file_exists(at("out/adapter_model.safetensors")));
}

TEST_F(Signals, Usr2StopsAndTheRunGoesOnWithTheSameBits) { stop_and_go_on(1, SIGUSR2); }
TEST_F(Signals, TermStopsAndTheRunGoesOnWithTheSameBits) { stop_and_go_on(1, SIGTERM); }
TEST_F(Signals, IntStopsAndTheRunGoesOnWithTheSameBits) { stop_and_go_on(1, SIGINT); }
TEST_F(Signals, Usr2StopsAllRanks) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  stop_and_go_on(2, SIGUSR2);
}

TEST_F(Signals, AKilledRankEndsTheOthers) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  std::string r = recipe("r.yml", long_run(3000));
  Child child(on_ranks(2, {"train", r}));
  ASSERT_TRUE(soon(30, [&] { return steps_done("out", 3); }));
  std::vector<pid_t> ranks;
  for (pid_t pid : processes_with(r))
    if (fs::read_symlink(fmt::format("/proc/{}/exe", pid)).filename() == "dml") ranks.push_back(pid);
  ASSERT_EQ(ranks.size(), 2u);
  auto start = std::chrono::steady_clock::now();
  kill(ranks[1], SIGKILL);
  Ended e = child.wait();
  EXPECT_NE(e.exit, 0);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10);
  EXPECT_TRUE(soon(5, [&] { return processes_with(r).empty(); })) << "processes are left";
}

TEST_F(Signals, AKilledRunGoesOnFromItsLastCheckpoint) {
  Keys keys = long_run(200) + Keys{{"save_strategy", ""}, {"save_steps", "10"}};
  ASSERT_EQ(train(1, recipe("whole.yml", keys + Keys{{"output_dir", at("whole")}})).exit, 0);
  std::string r = recipe("r.yml", keys);
  {
    Child child(on_ranks(1, {"train", r}));
    ASSERT_TRUE(soon(30, [&] { return steps_done("out", 37); }));
    child.signal(SIGKILL);
    EXPECT_EQ(child.wait().exit, 128 + SIGKILL);
  }
  Ended resumed = train(1, r, {"--resume", "auto"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(results_in(at("out")), results_in(at("whole")));
  EXPECT_EQ(numbers_of(at("out/metrics.jsonl")), numbers_of(at("whole/metrics.jsonl")));
}

}  // namespace
}  // namespace dml::e2e
