// Checkpoints for dml ckpt: a folder that is one itself, one that cannot be removed, and where the best one is.
#include "pipeline/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/checkpoint_dir.h"
#include "core/error.h"
#include "core/left_over.h"
#include "diagnose/requirements.h"
#include "temporary_folder.h"

namespace dml {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

class Checkpoints : public testing::Test {
 protected:
  std::string save(const std::string& name, std::int64_t step, TrainState state = {}) const {
    CheckpointWriter out(folder_ / name, step);
    write_file(out.path() + "/model.safetensors", "weights");
    state.step = step;
    return out.commit(state, {});
  }
  testing_tools::TemporaryFolder folder_;
};

TEST_F(Checkpoints, AFolderThatIsOneIsExaminedByItself) {
  const std::string path = save("run", 5);
  for (const std::string& name : {path, path + "/"}) {
    const auto rows = checkpoint_rows(name, true);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].step, 5);
    EXPECT_EQ(rows[0].problem, "");
  }
  fs::rename(path, folder_ / "kept");
  EXPECT_EQ(checkpoint_rows(folder_ / "kept", true).size(), 1u);
  write_file(folder_ / "kept/model.safetensors", "weighty");
  EXPECT_THAT(checkpoint_rows(folder_ / "kept", true).at(0).problem, HasSubstr("damaged"));
}

TEST_F(Checkpoints, AreValidWhateverTheirHistory) {
  const std::string path = save("run", 5);
  std::string history = R"({"log_history": [{"step": 4, "loss": 3.5})";
  for (int step = 5; history.size() < (std::size_t{65} << 20); ++step)  // more than most JSON files may have
    history += fmt::format(R"(,{}{{"step": {}, "loss": 2.5}})", std::string(100, ' '), step);
  for (const std::string& text : {history + "]}", std::string("{")}) {
    write_file(path + "/trainer_state.json", text);
    write_manifest(path, {{"step", 5}});
    const CheckpointRow row = checkpoint_rows(path, true).at(0);
    EXPECT_EQ(row.problem, "");
    EXPECT_EQ(row.loss, text == "{" ? std::nullopt : std::optional(2.5));
  }
}

TEST_F(Checkpoints, AFolderWhoseStateIsDamagedIsReported) {
  const std::string path = save("run", 5);
  write_file(path + "/dml_state.json", "{\"step\":");
  for (const std::string& name : {path, path + "/"}) {
    const auto rows = checkpoint_rows(name, true);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].step, 5);
    EXPECT_THAT(rows[0].problem, HasSubstr("'dml_state.json' has 8 bytes, expected "));
  }
  fs::rename(path, folder_ / "kept");
  EXPECT_EQ(checkpoint_rows(folder_ / "kept", true).at(0).step, -1);
}

TEST_F(Checkpoints, AreRemovedByTheFolderOfTheirRun) {
  const std::string path = save("run", 5);
  save("run", 6);
  const auto refusal = [](const std::string& folder, std::optional<std::int64_t> step) -> std::string {
    try {
      remove_checkpoint_of_step(folder, step, false);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  const std::string advice = "is a checkpoint; rm takes the folder of its run: dml ckpt rm ";
  for (const std::optional<std::int64_t> step : {std::optional<std::int64_t>(5), std::optional<std::int64_t>()}) {
    EXPECT_THAT(refusal(path, step), HasSubstr(advice + (folder_ / "run") + " 5"));
    EXPECT_THAT(refusal(path + "/.", step), HasSubstr(advice + real_path(folder_ / "run") + " 5"));
  }
  EXPECT_THAT(refusal(folder_ / "run", {}), HasSubstr("needs the step of a checkpoint (it has 6, 5)"));
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(Checkpoints, OfAResumedRunNeedRoomForThoseThatItAdds) {
  ScheduleOptions steps;
  steps.num_epochs = 1;
  const Schedule schedule(std::vector<std::int32_t>(8, 1), steps);
  TrainSection train;
  train.save_strategy = IntervalStrategy::steps;
  train.save_steps = 1;
  train.save_total_limit = 100;
  train.output_dir = folder_ / "run";
  const auto added = [&](const std::string& from) { return added_checkpoints(train, Calendar(train, schedule), from); };
  EXPECT_EQ(added(""), 8);
  const std::string from = save("run", 6);  // 1 to 5 were removed
  EXPECT_EQ(added(from), 2);
  EXPECT_EQ(added(""), 8) << "a new run moves the earlier one aside";
  train.output_dir = folder_ / "new";
  EXPECT_EQ(added(from), 2);
  train.save_total_limit = 2;
  EXPECT_EQ(added(save("run", 1)), 3);
  train.output_dir = folder_ / "run";
  save("run", 2), save("run", 3);
  EXPECT_EQ(added(folder_ / "run/checkpoint-3"), 1);
  EXPECT_EQ(added(folder_ / "run/checkpoint-1"), 2) << "those behind it are moved aside";
  EXPECT_EQ(added(save("run", 8)), 0) << "all steps are done";
  train.save_strategy = IntervalStrategy::never;
  EXPECT_EQ(added(""), 0);
}

TEST_F(Checkpoints, OneThatCannotBeRemovedIsAnError) {
  save("run", 5), save("run", 6);
  // Something is where it would be moved to.
  const std::string name = temporary_name(folder_ / "run/checkpoint-5"), last = name.substr(name.rfind('-') + 1);
  const std::string next = name.substr(0, name.size() - last.size()) + std::to_string(std::stoi(last) + 1);
  fs::create_directories(next + "/folder");
  EXPECT_THROW(remove_checkpoint_of_step(folder_ / "run", 5, false), IoError);
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoint-5/manifest.json"));
}

TEST_F(Checkpoints, TheBestOneIsFoundInTheFolderOfTheRunThatMadeIt) {
  TrainState state;
  state.best_step = 5;
  const std::string first = folder_ / "first", second = folder_ / "second", third = folder_ / "third";
  save("first", 5, state);
  const std::string from = save("first", 7, state);
  remember_best_checkpoint(state, from, first);
  EXPECT_EQ(best_checkpoint_of(state, first), first + "/checkpoint-5");
  remember_best_checkpoint(state, from + "/", second);
  EXPECT_EQ(best_checkpoint_of(state, second), first + "/checkpoint-5");
  remember_best_checkpoint(state, save("second", 9, state), third);
  EXPECT_EQ(best_checkpoint_of(state, third), first + "/checkpoint-5");
  state.best_step = 9;
  EXPECT_EQ(best_checkpoint_of(state, third), third + "/checkpoint-9") << "a later one is better";
}

TEST(CheckpointsOnDisk, AreThoseThatAreKeptAndTheOneBeingWritten) {
  TrainSection train;
  train.save_total_limit = 4;
  EXPECT_EQ(most_checkpoints(train, 3), 3);
  EXPECT_EQ(most_checkpoints(train, 4), 4);
  EXPECT_EQ(most_checkpoints(train, 9), 5);
  train.save_total_limit = 0;  // all
  EXPECT_EQ(most_checkpoints(train, 9), 9);
}

}  // namespace
}  // namespace dml
