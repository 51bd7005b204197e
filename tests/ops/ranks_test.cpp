// When a rank dies, hangs, or has other settings, the whole job ends by itself with a code and a reason, long before
// dist_timeout (which is longer than the tests' patience).
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "core/files.h"
#include "core/hash.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

class Ranks : public Workshop {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  }

  std::string lora(const Keys& keys = {}) {
    return recipe(
        "lora.yml",
        tiny_lora() +
            Keys{{"save_steps", "3"}, {"eval_steps", "3"}, {"output_dir", at("out")}, {"dist_timeout", "1000"}} + keys);
  }

  Ended with_fault(int ranks, const std::string& fault, const Keys& keys = {}) {
    Ended e;
    for (int attempt = 0; attempt == 0 || (e.locked_up && attempt < 3); ++attempt) {
      fs::remove_all(at("out"));
      e = Child(on_ranks(ranks, {"train", lora(keys)}), {.environment = {"DML_FAULT=" + fault}}).wait(folder_);
    }
    EXPECT_FALSE(e.timed_out) << fault;
    // mpirun may be a moment ahead of the last of its processes.
    EXPECT_TRUE(soon([&] { return processes_with(folder_).empty(); })) << fault;
    return e;
  }

  void dies(int ranks, const std::string& kind, const std::string& point) {
    std::string fault = fmt::format("rank={},point={},kind={}", ranks - 1, point, kind);
    if (point != "load") fault += ",step=3";
    Ended e = with_fault(ranks, fault);
    EXPECT_NE(e.exit, 0) << fault << "\n" << e.err;
    if (kind == "throw") {
      EXPECT_EQ(e.exit, 1) << fault;
      EXPECT_NE(e.err.find(fmt::format("[rank {}] error:", ranks - 1)), e.err.npos) << e.err;
    }
    if (kind == "bad_alloc") {
      EXPECT_EQ(e.exit, 7) << fault;
    }
    if (kind == "exit3") {
      EXPECT_EQ(e.exit, 3) << fault;
    }
    if (kind == "kill") {
      EXPECT_EQ(e.exit, 137) << fault;
    }
    if (fs::exists(at("out"))) {
      const Ended verified = dml({"ckpt", "verify", at("out")});
      EXPECT_TRUE(verified.exit == 0 || verified.err.find("there are no checkpoints") != verified.err.npos) << fault;
    }
  }

  /// Two ranks, the second one started by `second` (a shell line in which $DML is the program's command).
  Ended against(const std::string& second, const Keys& keys = {}) {
    std::string command = fmt::format("{} train {}", dml_path(), lora(keys));
    std::string line = second;
    for (std::size_t p; (p = line.find("$DML")) != line.npos;) line.replace(p, 4, command);
    return run({"mpirun", "--oversubscribe", "--bind-to", "none", "-np", "1", dml_path(), "train", at("lora.yml"), ":",
                "-np", "1", "sh", "-c", line},
               {.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}});
  }

  void expect_refused(const Ended& e, const std::string& what) {
    EXPECT_EQ(e.exit, 6) << e.err;
    EXPECT_NE(e.err.find("ranks disagree on"), e.err.npos) << e.err;
    EXPECT_NE(e.err.find(what), e.err.npos) << e.err;
    EXPECT_FALSE(fs::exists(at("out/metrics.jsonl"))) << "step 0 was reached";
  }

  /// Runs `inside` with other contents of `path` on one rank: in a mount namespace.
  void with_own_copy(const std::string& path, const std::string& copy, const std::string& what) {
    if (geteuid() != 0 || run({"unshare", "-m", "true"}).exit != 0) GTEST_SKIP() << "needs root for a mount of its own";
    expect_refused(against(fmt::format("unshare -m sh -c 'mount --bind {} {} && exec $DML'", copy, path)), what);
  }
};

TEST_F(Ranks, AllEndWhenOneDies) {
  const std::vector<std::pair<const char*, const char*>> few{
      {"kill", "step"},  {"segv", "exchange"}, {"abort", "save"},    {"exit0", "evaluation"},
      {"exit3", "load"}, {"throw", "save"},    {"bad_alloc", "step"}};
  for (auto [kind, point] : few) dies(2, kind, point);
}

TEST_F(Ranks, LongEndTogetherInAllPhasesAndWays) {
  if (!long_form()) GTEST_SKIP() << "DML_LONG is not set";
  int cases = 0;
  double slowest = 0;
  for (int ranks : {2, 4})
    for (const char* kind : {"kill", "segv", "abort", "exit0", "exit3", "throw", "bad_alloc"})
      for (const char* point : {"load", "step", "exchange", "evaluation", "save"}) {
        auto start = std::chrono::steady_clock::now();
        dies(ranks, kind, point);
        slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        ++cases;
      }
  fmt::print("{} cases, the slowest {:.1f} s (start, steps and verification included)\n", cases, slowest);
}

TEST_F(Ranks, NameTheRankThatHangs) {
  // A rank that the machine holds up may be taken for one that hangs: then they wait for longer.
  Ended e;
  for (const char* patience : {"5", "40", "300"}) {
    e = with_fault(3, "rank=1,point=step,kind=hang,step=3", {{"dist_timeout", patience}});
    if (e.err.find("(step 3)") != e.err.npos && e.err.find("waiting for rank 1") != e.err.npos) break;
  }
  EXPECT_EQ(e.exit, 6) << e.err;
  // The first rank to time out terminates the other, which may or may not report its error.
  EXPECT_TRUE(e.err.find("rank 0 on") != e.err.npos || e.err.find("rank 2 on") != e.err.npos) << e.err;
  EXPECT_NE(e.err.find("(step 3)"), e.err.npos) << e.err;
  EXPECT_NE(e.err.find("waiting for rank 1"), e.err.npos) << e.err;
}

TEST_F(Ranks, FindAFlippedBitAtTheNextSave) {
  Ended e = with_fault(2, "rank=1,point=save,kind=flip,step=6");
  EXPECT_EQ(e.exit, 6) << e.err;
  EXPECT_NE(e.err.find("hold different values of"), e.err.npos) << e.err;
  EXPECT_NE(e.err.find("lora_A"), e.err.npos) << e.err;
  EXPECT_TRUE(fs::exists(at("out/checkpoint-3")));
  EXPECT_FALSE(fs::exists(at("out/checkpoint-6")));
}

TEST_F(Ranks, FindDifferentSettings) { expect_refused(against("exec $DML --learning_rate 5e-4"), "learning_rate"); }
TEST_F(Ranks, FindAnotherSeed) { expect_refused(against("exec $DML --seed 8"), "seed"); }
TEST_F(Ranks, FindAnotherStrategy) { expect_refused(against("exec $DML --distribution zero2"), "distribution"); }
TEST_F(Ranks, FindOtherThreads) { expect_refused(against("exec $DML --threads 2", {{"threads", "1"}}), "threads"); }
TEST_F(Ranks, FindOtherSaves) { expect_refused(against("exec $DML --save_steps 4"), "save_steps"); }
TEST_F(Ranks, FindOtherLoops) { expect_refused(against("DML_ISA=portable exec $DML"), "version and BLAS"); }

TEST_F(Ranks, FindAnotherProgram) {
  std::string other = at("dml");
  fs::copy_file(dml_path(), other);
  write_file(other + ".tail", read_file(other) + "x");  // bytes after the last section change nothing but the digest
  fs::permissions(other + ".tail", fs::perms::owner_all);
  expect_refused(against(fmt::format("exec {}.tail train {}", other, at("lora.yml"))), "the program");
}

TEST_F(Ranks, FindOneOtherByteOfTheBaseModel) {
  std::string copy = at("copy");
  fs::copy(base_directory(), copy, fs::copy_options::recursive);
  std::string bytes = read_file(copy + "/model.safetensors");
  bytes[bytes.size() / 2] ^= 1;
  write_file(copy + "/model.safetensors", bytes);
  with_own_copy(base_directory(), copy, "the base model");
}

TEST_F(Ranks, FindOtherPreparedData) {
  Ended e = dml({"preprocess", lora()});
  ASSERT_EQ(e.exit, 0) << e.err;
  std::string folder = e.out.substr(0, e.out.find('\n')), copy = at("copy");
  if (folder[0] != '/') folder = at(folder);
  fs::copy(folder, copy, fs::copy_options::recursive);
  std::string manifest = read_file(copy + "/manifest.json");
  auto seed = manifest.find("\"seed\"");
  ASSERT_NE(seed, manifest.npos);
  manifest.replace(seed, 6, "\"Seed\"");  // as another program with the same key would have written it
  Json other = parse_json(manifest, "manifest.json");
  other.erase("xxh3");
  other["xxh3"] = digest_of(other.dump(1) + "\n");
  write_file(copy + "/manifest.json", other.dump(1) + "\n");
  with_own_copy(folder, copy, "the prepared data");
}

// Each task of an srun without MPI would start ranks of its own.
TEST_F(Ranks, AreNotStartedByEachOfSeveralTasks) {
  const std::string path = recipe("tasks.yml", tiny_model() + Keys{{"ranks", "2"}, {"output_dir", at("tasks")}});
  for (const Words& words : {Words{"train", path}, Words{"launch", "-n", "2", "train", path}})
    Workshop::expect_refused(dml(words, {.environment = {"SLURM_STEP_NUM_TASKS=2"}}), 2,
                             {"srun started 2 processes without MPI", "srun -n 1"});
  Workshop::expect_refused(dml({"merge", path}, {.environment = {"SLURM_STEP_NUM_TASKS=2"}}), 2,
                           {"srun started 2 processes without MPI"});
}

// Their mpiexec tells the processes how many they are, but Open MPI sees one.
TEST_F(Ranks, AreNotStartedByAnotherMpi) {
  const std::string path = recipe("other.yml", tiny_model() + Keys{{"output_dir", at("other")}});
  Workshop::expect_refused(dml({"train", path}, {.environment = {"PMI_RANK=0", "PMI_SIZE=2"}}), 2,
                           {"2 processes were started, but this process sees no other rank", "Use mpirun of Open MPI"});
}

// Where MPI cannot be initialized, a quiet mpirun ends with code 1 before a rank can say anything.
TEST_F(Ranks, ThatCannotStartAreReported) {
  EXPECT_EQ(run(on_ranks(2, {"--trial-rank"})).exit, 0);
  const std::string path = recipe("silent.yml", tiny_model() + Keys{{"output_dir", at("silent")}});
  fs::create_directory(at("bin"));
  const auto stand_in = [&](const std::string& script) {
    fs::permissions(write("bin/mpirun", "#!/bin/sh\n" + script), fs::perms::owner_all);
  };
  stand_in("exit 1\n");
  const std::string places = fmt::format("PATH={}:{}", at("bin"), std::getenv("PATH"));
  for (const Words& words : {Words{"launch", "-n", "2", "train", path}, Words{"train", path, "--ranks", "2"}})
    Workshop::expect_refused(dml(words, {.environment = {places}}), 6,
                             {"mpirun cannot start 2 ranks here", "--verbose", "dml doctor"});
  stand_in("case \"$*\" in *--trial-rank) exit 0;; esac; exit 1\n");
  const Ended own_error = dml({"train", path, "--ranks", "2"}, {.environment = {places}});
  EXPECT_EQ(own_error.exit, 1) << "of a rank that could start";
  EXPECT_EQ(own_error.err.find("cannot start"), own_error.err.npos) << own_error.err;
}

TEST_F(Ranks, PrintACommonErrorOnce) {
  const std::string path = recipe("loud.yml", tiny_lora());
  const auto times_said = [](const Ended& e, const std::string& what) {
    int times = 0;
    for (std::size_t at = e.err.find(what); at != e.err.npos; at = e.err.find(what, at + 1)) ++times;
    return times;
  };
  const Ended misspelt = Child(on_ranks(3, {"train", path, "--learning_rat", "3"})).wait(path);
  if (!misspelt.locked_up) {
    EXPECT_EQ(misspelt.exit, 2);
  }
  EXPECT_EQ(times_said(misspelt, "error: "), 1) << misspelt.err;
  ASSERT_EQ(train(1, path).exit, 0);
  const Ended resumed = dml({"launch", "-n", "2", "resume", at("out")});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(times_said(resumed, "Resuming: "), 1) << resumed.err;
}

TEST_F(Ranks, AreNotStartedForCommandsOfOneProcess) {
  const std::string path = recipe("merge.yml", tiny_lora());
  for (const Words& words : {Words{"launch", "merge", path}, Words{"launch", "-n", "2", "merge", path}})
    Workshop::expect_refused(dml(words), 2, {"dml merge runs in one process; start it without dml launch"});
  Workshop::expect_refused(dml({"launch", "--submit", "slurm", "--ranks-per-node", "2", "--dry-run", "sweep", path}), 2,
                           {"dml sweep runs in one process; leave out --nodes and --ranks-per-node"});
  EXPECT_EQ(dml({"launch", "--submit", "slurm", "--dry-run", "sweep", path}).exit, 0);
}

}  // namespace
}  // namespace dml::e2e
