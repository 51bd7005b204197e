// Sweeps: that every combination is checked before the first run, and that a run whose files changed is repeated.
#include <gmock/gmock.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;
using testing::Not;

class Sweeps : public Workshop {
 protected:
  Ended sweep(const std::string& recipe, const Words& more = {}) const {
    Words words{"sweep", recipe, "--grid", at("grid.yml"), "--output", at("sweep")};
    words.insert(words.end(), more.begin(), more.end());
    return dml(words);
  }
  Keys short_run() const { return tiny_lora() + Keys{{"max_steps", "1"}, {"val_set_size", "0"}, {"eval_steps", ""}}; }
};

TEST_F(Sweeps, RepeatRunsWhoseFilesChanged) {
  alpaca("more.jsonl", 20, 50);
  fs::copy(base_directory(), at("base"));
  const std::string r = recipe("r.yml", short_run() + Keys{{"base_model", at("base")}});
  write("grid.yml", "datasets.0.path: [" + at("rows.jsonl") + ", " + at("more.jsonl") + "]\n");
  ASSERT_EQ(sweep(r).exit, 0);
  alpaca("more.jsonl", 30, 60);
  const Ended data = sweep(r);
  ASSERT_EQ(data.exit, 0) << data.err;
  EXPECT_THAT(data.err, HasSubstr("run-01: finished before"));
  EXPECT_THAT(data.err, Not(HasSubstr("run-02: finished before")));
  write("base/model.safetensors", read_file(at("base/model.safetensors")));  // another time
  const Ended base = sweep(r);
  ASSERT_EQ(base.exit, 0) << base.err;
  EXPECT_THAT(base.err, Not(HasSubstr("finished before")));
  EXPECT_THAT(sweep(r).err, HasSubstr("run-02: finished before"));
}

TEST_F(Sweeps, TakeValuesThatBeginLikeOptions) {
  const std::string r = recipe("r.yml", short_run());
  write("grid.yml", "wandb_name: [\"--a\"]\n");
  const Ended e = sweep(r, {"--wandb_entity=--b"});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_TRUE(fs::exists(at("sweep/run-01/adapter_model.safetensors")));
}

// A name in the table is the folder of the result, also where the order of the grid has changed.
TEST_F(Sweeps, KeepTheResultsOfAGridInAnotherOrder) {
  const std::string r = recipe("r.yml", short_run());
  write("grid.yml", "learning_rate: [1e-3, 1e-4]\n");
  ASSERT_EQ(sweep(r).exit, 0);
  const std::string kept = read_file(at("sweep/run-02/adapter_model.safetensors"));
  write("grid.yml", "learning_rate: [1e-4, 5e-3]\n");
  const Ended e = sweep(r);
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.out, HasSubstr("| run-02 | 0.0001 |"));
  EXPECT_THAT(e.out, HasSubstr("| run-03 | 0.005 |"));
  EXPECT_EQ(read_file(at("sweep/run-02/adapter_model.safetensors")), kept);
  EXPECT_THAT(sweep(r).err, testing::AllOf(HasSubstr("run-02: finished before"), HasSubstr("run-03: finished before")));
}

// A run that is refused before its first step has no numbers of the run that it would have replaced.
TEST_F(Sweeps, ARefusedRunHasNoNumbers) {
  const std::string twice = fmt::format("[{{path: {0}, type: alpaca}}, {{path: {0}, type: alpaca}}]", at("rows.jsonl"));
  const std::string r = recipe("r.yml", short_run() + Keys{{"val_set_size", "4"}, {"datasets", twice}});
  write("grid.yml", "learning_rate: [1e-3]\n");
  ASSERT_EQ(sweep(r).exit, 0);
  write("grid.yml", "learning_rate: [5e-3]\n");
  const Ended e = sweep(r, {"--load_best_model_at_end", "true", "--metric_for_best_model", "eval_row_loss"});
  EXPECT_THAT(e.out, HasSubstr("| run-01 | 0.005 |  |  |  | 2 |"));
}

// The base's own loss, at step 0, is not the lowest of a run that only got worse.
TEST_F(Sweeps, TellTheLowestLossOfTrainedWeights) {
  const Keys worse{{"learning_rate", "1"}, {"max_steps", "2"}, {"val_set_size", "8"}, {"eval_steps", "1"}};
  const std::string r = recipe("r.yml", tiny_lora() + worse);
  write("grid.yml", "seed: [1]\n");
  ASSERT_EQ(sweep(r).exit, 0);
  std::map<std::int64_t, double> losses;
  for (const Json& line : json_lines(at("sweep/run-01/metrics.jsonl")))
    if (line.value("event", "") == "eval") losses[line.at("step")] = line.at("loss").get<double>();
  ASSERT_LT(losses.at(0), std::min(losses.at(1), losses.at(2)));
  EXPECT_THAT(sweep(r).out,
              HasSubstr(fmt::format(" {:.4f} | {:.4f} | 0 |", losses.at(2), std::min(losses.at(1), losses.at(2)))));
}

TEST_F(Sweeps, CheckEveryCombinationFirst) {
  const std::string r = recipe("r.yml", short_run());
  write("grid.yml", "datasets.0.path: [" + at("rows.jsonl") + ", " + at("rowz.jsonl") +
                        "]\nlora_target_linear: [false]\nlora_target_modules: [[q_proj], [no_proj]]\n");
  const Ended e = sweep(r);
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err, HasSubstr("no such file or directory"));
  EXPECT_THAT(e.err, HasSubstr("grid.yml:3:33: "));
  EXPECT_THAT(e.err, HasSubstr("target modules 'no_proj' match no module"));
  EXPECT_FALSE(fs::exists(at("sweep")));

  write("grid.yml", "seed: [1]\n_: [{rl: dpo, datasets.0.type: passthrough}, {max_steps: 1}]\n");
  const Ended pairs = sweep(recipe("r.yml", tiny_lora() + Keys{{"max_steps", ""}, {"num_epochs", "1"}}));
  EXPECT_EQ(pairs.exit, 2);
  EXPECT_THAT(pairs.err, HasSubstr("grid.yml:1:8: {\"seed\":1,\"rl\":\"dpo\""));
  EXPECT_THAT(pairs.err, HasSubstr("the row has no 'prompt'"));
  EXPECT_THAT(pairs.err, HasSubstr(" more problems"));
}

TEST_F(Sweeps, ReportProblemsOfKeysAndOfValuesTogether) {
  const std::string r = recipe("r.yml", short_run());
  write("grid.yml", "lora_rr: [4]\nseed: [1, x]\nmax_steps: [1]\n");
  const Ended e = sweep(r, {"--max_steps", "2"});
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err, HasSubstr("grid.yml:1:1: unknown key 'lora_rr'; did you mean 'lora_r'?"));
  EXPECT_THAT(e.err, HasSubstr("'max_steps' is set by the grid and by --max_steps; remove one of them"));
  EXPECT_THAT(e.err, HasSubstr("grid.yml:2:11: 'seed' must be"));
}

TEST_F(Sweeps, NameTheRunOfACombinationWithoutSettings) {
  write("grid.yml", "_: [{}, {datasets.0.path: " + at("rows.jsonl") + "}]\n");
  const std::string without = recipe("r.yml", short_run() + Keys{{"datasets", "[{path: rowz.jsonl, type: alpaca}]"}});
  const Ended missing = sweep(without);
  EXPECT_EQ(missing.exit, 2) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("run-01: {}: "));
  EXPECT_THAT(missing.err, HasSubstr("no such file or directory"));
  write("grid.yml", "_: [{}]\n");
  EXPECT_THAT(sweep(without).err, HasSubstr("run-01: {}: "));
}

// A line that every combination has twice is a problem of the recipe, too.
TEST_F(Sweeps, CountALineOncePerCombination) {
  write("grid.yml", "seed: [1, 2]\n");
  const Ended e = sweep(recipe("r.yml", short_run()), {"--plugins", "[none, none]"});
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err, HasSubstr("command line: the plug-in 'none' is not supported"));
  EXPECT_THAT(e.err, Not(HasSubstr("{\"seed\":1}")));
}

// A file system in memory of a megabyte; needs root.
class FullDisk {
 public:
  explicit FullDisk(std::string path) : path_(std::move(path)) {
    fs::create_directory(path_);
    there_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  ~FullDisk() {
    if (there_) umount2(path_.c_str(), MNT_DETACH);
  }
  explicit operator bool() const { return there_; }
  void fill() const { std::ofstream(path_ + "/filler") << std::string(1 << 20, 'x'); }

 private:
  std::string path_;
  bool there_;
};

TEST_F(Sweeps, PrintTheTableAgainWithoutRoom) {
  const FullDisk disk(at("sweep"));
  if (!disk) GTEST_SKIP() << "needs root for a small tmpfs";
  const std::string r = recipe("r.yml", short_run());
  write("grid.yml", "seed: [1, 2]\n");
  const Ended first = sweep(r);
  ASSERT_EQ(first.exit, 0) << first.err;
  disk.fill();
  const Ended again = sweep(r);
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  write("grid.yml", "seed: [1, 3]\n");
  const Ended another = sweep(r);
  EXPECT_EQ(another.exit, 2);
  EXPECT_THAT(another.err, HasSubstr("not enough disk space"));
}

TEST_F(Sweeps, OfAFolderWithASlashGoBesideIt) {
  write("grid.yml", "seed: [1]\n");
  const Ended e =
      dml({"sweep", recipe("r.yml", short_run() + Keys{{"output_dir", at("out") + "/"}}), "--grid", at("grid.yml")});
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_TRUE(fs::exists(at("out-sweep/run-01/metrics.jsonl")));
}

}  // namespace
}  // namespace dml::e2e
