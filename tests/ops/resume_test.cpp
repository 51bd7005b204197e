// A run may end at any instant, by a kill, a cut in the middle of a save, or a full disk: it resumes from the newest
// valid checkpoint, and the result equals that of an uninterrupted run, byte for byte.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

bool has_left_over(const std::string& folder) {
  for (auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
  return false;
}

class Resume : public Workshop {
 protected:
  using Files = std::map<std::string, std::string>;

  std::string lora(const std::string& out, const Keys& keys) {
    return recipe(fs::path(out).filename().string() + ".yml",
                  tiny_lora() + Keys{{"save_steps", "3"}, {"save_total_limit", "2"}, {"output_dir", out}} + keys);
  }

  void whole(const Keys& keys) {
    Ended e = train(1, lora(at("whole"), keys));
    ASSERT_EQ(e.exit, 0) << e.err;
    files_ = results_in(at("whole"));
    numbers_ = numbers_of(at("whole/metrics.jsonl"));
    ASSERT_FALSE(files_.empty());
  }

  void expect_whole(const std::string& out, const std::string& what) {
    EXPECT_TRUE(results_in(out) == files_) << what << ": the result differs";
    EXPECT_EQ(numbers_of(out + "/metrics.jsonl"), numbers_) << what;
  }

  void expect_only_whole_checkpoints(const std::string& out, const std::string& what) {
    if (!fs::exists(out)) return;
    Ended e = dml({"ckpt", "verify", out});
    if (e.err.find("there are no checkpoints") != e.err.npos) return;
    EXPECT_EQ(e.exit, 0) << what << "\n" << e.out << e.err;
  }

  // How an attempt ends: on how many ranks it runs, and what kills one of them.
  struct Kill {
    int ranks;
    Words environment;
  };
  static Kill kill_at(int ranks, int rank, const char* point, int step) {
    return {ranks, {fmt::format("DML_FAULT=rank={},point={},kind=kill,step={}", rank, point, step)}};
  }
  /// Before the `call`-th change of files and folders in the output folder whose names begin with `name`.
  Kill kill_writing(const std::string& name, int call, int ranks = 1) {
    return {ranks, {"LD_PRELOAD=" DML_CUT_WRITES, "CUT_FOLDER=" + at("run/" + name), fmt::format("CUT_AT={}", call)}};
  }

  // One run of 24 steps. Each attempt resumes what the one before left; the last ends as the whole run did.
  void survives_kills(const std::vector<Kill>& kills) {
    const Keys keys{{"max_steps", "24"}, {"num_epochs", "50"}, {"save_steps", "4"}, {"eval_steps", "6"}};
    whole(keys);
    const std::string out = at("run"), recipe_path = lora(out, keys);
    for (const Kill& kill : kills) {
      if (kill.ranks > 1 && !has_mpirun()) continue;
      const std::string what = fmt::format("{} ranks, {}", kill.ranks, fmt::join(kill.environment, " "));
      Ended e =
          Child(on_ranks(kill.ranks, {"train", recipe_path, "--resume", "auto"}), {.environment = kill.environment})
              .wait(folder_);
      ASSERT_TRUE(e.exit == 137 || e.locked_up) << what << "\n" << e.err;
      // mpirun may be a moment ahead of the last of its processes.
      ASSERT_TRUE(soon([&] { return ranks_with(folder_).empty(); })) << what;
      expect_only_whole_checkpoints(out, what);
    }
    Ended e = train(has_mpirun() ? 2 : 1, recipe_path, {"--resume", "auto"});
    ASSERT_EQ(e.exit, 0) << e.err;
    expect_whole(out, "after the last kill");
    EXPECT_FALSE(has_left_over(out));
  }

  // Every call of a run that changes something in its folder is the last one once, every `stride`-th of them.
  void survives_cuts(const Keys& keys, long stride) {
    whole(keys);
    std::string shim = "LD_PRELOAD=" DML_CUT_WRITES;
    Ended counted = train(1, lora(at("counted"), keys), {},
                          {.environment = {shim, "CUT_FOLDER=" + at("counted"), "CUT_COUNT=" + at("count")}});
    ASSERT_EQ(counted.exit, 0) << counted.err;
    const long calls = std::stol(read_file(at("count")));
    ASSERT_GT(calls, 50);
    long cuts = 0;
    for (long k = 1; k <= calls; k += stride, ++cuts) {
      std::string out = at(fmt::format("cut-{}", k)), what = fmt::format("cut at call {} of {}", k, calls),
                  recipe_path = lora(out, keys);
      Ended cut = train(1, recipe_path, {}, {.environment = {shim, "CUT_FOLDER=" + out, fmt::format("CUT_AT={}", k)}});
      ASSERT_EQ(cut.exit, 137) << what << cut.err;
      expect_only_whole_checkpoints(out, what);
      Ended e = train(1, recipe_path, {"--resume", "auto"});
      ASSERT_EQ(e.exit, 0) << what << e.err;
      expect_whole(out, what);
      EXPECT_FALSE(has_left_over(out)) << what;
      fs::remove_all(out);
    }
    fmt::print("{} of {} calls cut\n", cuts, calls);
  }

  Files files_;
  std::string numbers_;
};

TEST_F(Resume, IsExactAfterKills) {
  survives_kills({kill_at(4, 3, "exchange", 2),  // there is no checkpoint yet
                  kill_at(1, 0, "step", 7),      // between checkpoints
                  kill_at(2, 1, "save", 8),      // before one begins
                  kill_writing(".checkpoint-12", 5), kill_at(2, 0, "evaluation", 18), kill_writing(".checkpoint-24", 5),
                  kill_writing("adapter", 2)});  // the result is half there
}
TEST_F(Resume, LongIsExactAfterAKillAtEveryStep) {
  if (!long_form()) GTEST_SKIP() << "DML_LONG is not set";
  std::vector<Kill> kills;
  for (int step = 0; step < 24; ++step) {
    const int ranks = std::array{1, 2, 4}[static_cast<std::size_t>(step % 3)], done = step + 1;
    kills.push_back(kill_at(ranks, step % ranks, "step", step));
    if (ranks > 1) kills.push_back(kill_at(ranks, (step + 1) % ranks, "exchange", step));
    if (done % 6 == 0) kills.push_back(kill_at(ranks, (step + 2) % ranks, "evaluation", done));
    if (done % 4 != 0) continue;
    kills.push_back(kill_at(ranks, (step + 3) % ranks, "save", done));
    for (int call : {1, done / 2}) kills.push_back(kill_writing(fmt::format(".checkpoint-{}", done), call, ranks));
  }
  survives_kills(kills);
}

TEST_F(Resume, IsExactAfterCutsInSaves) { survives_cuts({}, 41); }
TEST_F(Resume, IsExactAfterCutsInSavesThatTrainingWaitsFor) { survives_cuts({{"save_in_background", "false"}}, 83); }
TEST_F(Resume, LongIsExactAfterACutAtEveryCall) {
  if (!long_form()) GTEST_SKIP() << "DML_LONG is not set";
  survives_cuts({}, 1);
}

// A checkpoint contains the state of its step, whoever writes it and whatever is trained meanwhile.
TEST_F(Resume, SavesTheSameInTheBackground) {
  const Keys full = tiny_model() + Keys{{"learning_rate", "1e-3"}};
  const std::tuple<const char*, int, Keys> cases[] = {
      {"lora", 1, tiny_lora()}, {"lora-zero3", 2, tiny_lora() + Keys{{"distribution", "zero3"}}},
      {"full", 1, full},        {"full-ddp", 2, full + Keys{{"distribution", "ddp"}}},
      {"full-zero1", 2, full},  {"full-zero3-bf16", 2, full + Keys{{"distribution", "zero3"}, {"comm_dtype", "bf16"}}}};
  for (auto& [name, ranks, keys] : cases) {
    if (ranks > 1 && !has_mpirun()) continue;
    std::map<std::string, Files> saved[2];
    for (bool background : {false, true}) {
      std::string out = at(fmt::format("{}-{}", name, background));
      Ended e = train(ranks, recipe(fmt::format("{}-{}.yml", name, background),
                                    keys + Keys{{"output_dir", out},
                                                {"batch_size", "4"},
                                                {"gradient_accumulation_steps", ""},
                                                {"save_steps", "2"},
                                                {"save_total_limit", "9"},
                                                {"save_in_background", background ? "true" : "false"}}));
      ASSERT_EQ(e.exit, 0) << name << e.err;
      if (name == std::string_view("full")) {  // the memory line leaves out what rounds to nothing
        EXPECT_EQ(e.err.find("copies for checkpoints") != e.err.npos, background) << name << e.err;
      }
      for (auto& entry : fs::directory_iterator(out))
        if (auto folder = entry.path().filename().string(); folder.starts_with("checkpoint-"))
          saved[background][folder] = results_in(entry.path().string());
    }
    EXPECT_EQ(saved[0].size(), 5u) << name;
    EXPECT_TRUE(saved[0] == saved[1]) << name;
  }
}

// A file system in memory, as small as one likes; needs root.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    fs::create_directory(path_);
    there_ = geteuid() == 0 && mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=64k") == 0;
  }
  ~SmallDisk() {
    if (there_) umount2(path_.c_str(), MNT_DETACH);
  }
  explicit operator bool() const { return there_; }
  void clear() {
    for (auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
  }
  bool resize(int kilobytes) {
    return mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, fmt::format("size={}k", kilobytes).c_str()) == 0;
  }

 private:
  std::string path_;
  bool there_;
};

TEST_F(Resume, IsExactAfterAFullDisk) {
  SmallDisk disk(at("disk"));
  if (!disk) GTEST_SKIP() << "needs root for a small tmpfs";
  whole({});
  int full = 0;
  for (int kilobytes = 40; kilobytes < 4000; kilobytes += long_form() ? 16 : 24) {
    disk.clear();
    ASSERT_TRUE(disk.resize(kilobytes));
    std::string out = at("disk/out"), what = fmt::format("{} kB", kilobytes), recipe_path = lora(out, {});
    Ended e = train(1, recipe_path);
    if (e.exit == 0) break;
    if (e.exit == 2 && e.err.find("not enough disk space") != e.err.npos) continue;  // seen before the run began
    ++full;
    EXPECT_EQ(e.exit, 5) << what << e.err;
    EXPECT_NE(e.err.find("No space left"), e.err.npos) << e.err;
    expect_only_whole_checkpoints(out, what);
    EXPECT_FALSE(has_left_over(out)) << what;
    ASSERT_TRUE(disk.resize(1 << 16));
    e = train(1, recipe_path, {"--resume", "auto"});
    ASSERT_EQ(e.exit, 0) << what << e.err;
    expect_whole(out, what);
  }
  EXPECT_GT(full, 2);
  fmt::print("{} sizes of a disk that is full at some place\n", full);
}

// Both ranks write; one of them may be done, or fail, while the other still trains.
TEST_F(Resume, IsExactAfterAFullDiskOnTwoRanks) {
  SmallDisk disk(at("disk"));
  if (!disk || !has_mpirun()) GTEST_SKIP() << "needs root for a small tmpfs, and mpirun";
  const Keys full = tiny_model() + Keys{{"distribution", "zero3"}, {"save_steps", "2"}, {"save_total_limit", "9"}};
  auto keys = [&](const std::string& out) { return recipe("two.yml", full + Keys{{"output_dir", out}}); };
  Ended e = train(2, keys(at("whole")));
  ASSERT_EQ(e.exit, 0) << e.err;
  files_ = results_in(at("whole"));
  numbers_ = numbers_of(at("whole/metrics.jsonl"));
  int full_disks = 0;
  for (int kilobytes = 4600; kilobytes < 9000; kilobytes += 200) {
    disk.clear();
    ASSERT_TRUE(disk.resize(kilobytes));
    std::string out = at("disk/out"), what = fmt::format("{} kB", kilobytes);
    e = train(2, keys(out));
    if (e.exit == 0) break;
    if (e.err.find("not enough disk space") != e.err.npos) continue;  // seen before the run began
    ++full_disks;
    EXPECT_EQ(e.exit, 5) << what << e.err;
    EXPECT_NE(e.err.find("No space left"), e.err.npos) << e.err;
    expect_only_whole_checkpoints(out, what);
    ASSERT_TRUE(disk.resize(1 << 16));
    e = train(2, keys(out), {"--resume", "auto"});
    ASSERT_EQ(e.exit, 0) << what << e.err;
    expect_whole(out, what);
  }
  EXPECT_GT(full_disks, 1);
}

}  // namespace
}  // namespace dml::e2e
