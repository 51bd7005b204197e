#include "checkpoint/checkpoint_dir.h"

#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

namespace dml {
namespace {
using namespace testing_tools;
using testing::ElementsAre;
using testing::HasSubstr;

TrainState state_of(std::int64_t step) {
  TrainState s;
  s.step = step;
  s.epoch = 0.1 * static_cast<double>(step);
  s.pass = 1;
  s.row = 7;
  s.seed = 0xffffffffffffffffu;
  s.tokens = std::int64_t{1} << 60;
  s.trained_tokens = 3;
  s.recipe = "r", s.data = "d", s.base = "b", s.numerics = "n";
  s.extra["ema"] = 0.1;
  return s;
}

std::string save(const std::string& output, std::int64_t step, std::int64_t best = -1) {
  CheckpointWriter out(output, step);
  put(out.path() + "/model.safetensors", "weights of " + std::to_string(step));
  put(out.path() + "/optimizer.safetensors", "state of " + std::to_string(step));
  TrainState state = state_of(step);
  state.best_step = best;
  TrainerState trainer;
  trainer.step = step;
  return out.commit(state, trainer);
}

std::vector<std::int64_t> steps(const std::string& output) {
  std::vector<std::int64_t> out;
  for (auto& c : list_checkpoints(output)) out.push_back(c.step);
  return out;
}

TEST(TrainState, SurvivesWritingAndReading) {
  TrainState s = state_of(5);
  s.best_metric = 0.1 + 0.2;
  s.best_step = 3;
  EXPECT_EQ(read_train_state(parse_json(train_state_text(s), "x"), "x"), s);
}

TEST(TrainState, EveryFieldIsNeededAndChecked) {
  Json good = parse_json(train_state_text(state_of(5)), "x");
  for (auto& [key, value] : good.items()) {
    Json without = good, wrong = good, negative = good;
    without.erase(key);
    wrong[key] = Json::array();
    EXPECT_THAT(refusal([&] { read_train_state(without, "x"); }), HasSubstr("'" + key + "'"));
    EXPECT_THAT(refusal([&] { read_train_state(wrong, "x"); }), HasSubstr("'" + key + "'"));
    if (!value.is_number()) continue;
    negative[key] = -5;
    EXPECT_THAT(refusal([&] { read_train_state(negative, "x"); }), HasSubstr("x: "));
  }
  good["format"] = 2;
  EXPECT_THAT(refusal([&] { read_train_state(good, "x"); }), HasSubstr("upgrade dml"));
}

// What an observer of a plug-in keeps may have any size.
TEST(TrainState, OneThatCouldNotBeReadAgainIsNotWritten) {
  testing_tools::TemporaryFolder folder;
  CheckpointWriter out(folder.path(), 5);
  write_file(out.path() + "/model.safetensors", "weights");
  TrainState state = state_of(5);
  state.extra["plugins"]["watch"] = std::string(kTrainStateLimits.bytes, 'x');
  EXPECT_THAT(refusal([&] { out.commit(state, {}); }),
              testing::AllOf(HasSubstr("checkpoint-5/dml_state.json: "), HasSubstr("the limit is 67108864")));
  state.extra["plugins"]["watch"] = std::string(std::size_t{8} << 20, 'x');
  EXPECT_EQ(load_train_state(out.commit(state, {})), state);
}

TEST(TrainerState, HasTheKeysOfTransformers) {
  TrainerState s;
  s.step = 4;
  s.epoch = 0.5;
  s.log_history = {{{"step", 4}, {"epoch", 0.5}, {"loss", 1.25}}};
  std::string text = trainer_state_text(s);
  EXPECT_TRUE(
      text.starts_with("{\n  \"best_global_step\": null,\n  \"best_metric\": null,\n  \"best_model_checkpoint\": "
                       "null,\n  \"epoch\": 0.5,\n"))
      << text;
  Json j = parse_json(text, "x");
  EXPECT_EQ(j.size(), 20u);
  EXPECT_EQ(dump(j["log_history"]), R"([{"epoch":0.5,"loss":1.25,"step":4}])");
}

TEST(CheckpointDir, IsFoundReadAndNamedAsLatest) {
  TempDir dir;
  EXPECT_FALSE(find_checkpoint(dir.path()).newest);
  EXPECT_FALSE(find_checkpoint(dir / "nowhere").newest);
  save(dir.path(), 2);
  std::string path = save(dir.path(), 10, 10);
  auto found = find_checkpoint(dir.path());
  ASSERT_TRUE(found.newest);
  EXPECT_EQ(found.newest->path, path);
  EXPECT_TRUE(found.skipped.empty());
  EXPECT_EQ(load_train_state(path).step, 10);
  EXPECT_EQ(get(dir / "latest"), "checkpoint-10\n");
  EXPECT_EQ(get(dir / "best"), "checkpoint-10\n");
}

TEST(CheckpointDir, SavingAStepAgainReplacesIt) {
  TempDir dir;
  save(dir.path(), 3);
  put(dir / "checkpoint-3/model.safetensors", "damaged");
  save(dir.path(), 3);
  EXPECT_EQ(manifest_problem(dir / "checkpoint-3"), "");
}

TEST(CheckpointDir, NothingIsVisibleWithoutCommit) {
  TempDir dir;
  { CheckpointWriter out(dir.path(), 3); }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

// Invalid folders of every kind are skipped with a reason, and the newest valid one is used.
struct Damage {
  const char* name;
  void (*make)(const std::string& checkpoint);
  const char* reason;
};

void edit_manifest(const std::string& checkpoint, void (*change)(Json&)) {
  Json j = read_json(checkpoint + "/manifest.json");
  change(j);
  put(checkpoint + "/manifest.json", j.dump());
}

class DamagedCheckpoint : public testing::TestWithParam<Damage> {};

TEST_P(DamagedCheckpoint, IsSkippedWithAReason) {
  TempDir dir;
  save(dir.path(), 5);
  GetParam().make(save(dir.path(), 9));
  auto found = find_checkpoint(dir.path());
  ASSERT_TRUE(found.newest);
  EXPECT_EQ(found.newest->step, 5);
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_THAT(found.skipped[0], testing::AllOf(HasSubstr("checkpoint-9: "), HasSubstr(GetParam().reason)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, DamagedCheckpoint,
    testing::Values(
        Damage{"Empty",
               [](auto& c) {
                 fs::remove_all(c);
                 fs::create_directory(c);
               },
               "manifest.json is missing"},
        Damage{"NoManifest", [](auto& c) { fs::remove(c + "/manifest.json"); }, "manifest.json is missing"},
        Damage{"ManifestOutOfReach",
               [](auto& c) {
                 fs::remove(c + "/manifest.json");
                 fs::create_symlink("manifest.json", c + "/manifest.json");
               },
               "manifest.json cannot be opened: Too many levels of symbolic links"},
        Damage{"FileMissing", [](auto& c) { fs::remove(c + "/model.safetensors"); }, "'model.safetensors' is missing"},
        Damage{"FileIsALink",
               [](auto& c) {
                 fs::remove(c + "/model.safetensors");
                 fs::create_symlink("/dev/zero", c + "/model.safetensors");
               },
               "'model.safetensors' is missing"},
        Damage{"OneByteMore", [](auto& c) { put(c + "/model.safetensors", get(c + "/model.safetensors") + "x"); },
               "bytes, expected"},
        Damage{"OneBitFlipped",
               [](auto& c) {
                 auto s = get(c + "/optimizer.safetensors");
                 s.back() ^= 1;
                 put(c + "/optimizer.safetensors", s);
               },
               "'optimizer.safetensors' are damaged"},
        Damage{"StateFlipped",
               [](auto& c) {
                 auto s = get(c + "/dml_state.json");
                 s[20] ^= 1;
                 put(c + "/dml_state.json", s);
               },
               "'dml_state.json' are damaged"},
        Damage{"ManifestTruncated",
               [](auto& c) {
                 auto s = get(c + "/manifest.json");
                 put(c + "/manifest.json", s.substr(0, s.size() / 2));
               },
               "not valid JSON"},
        Damage{"ManifestEmpty", [](auto& c) { put(c + "/manifest.json", ""); }, "not valid JSON"},
        Damage{"ManifestArray", [](auto& c) { put(c + "/manifest.json", "[]"); }, "not an object"},
        Damage{"FormatMissing", [](auto& c) { edit_manifest(c, [](Json& j) { j.erase("format"); }); }, "'format'"},
        Damage{"FormatText", [](auto& c) { edit_manifest(c, [](Json& j) { j["format"] = "1"; }); }, "'format'"},
        Damage{"FormatNegative", [](auto& c) { edit_manifest(c, [](Json& j) { j["format"] = -1; }); }, "'format'"},
        Damage{"FormatNewer", [](auto& c) { edit_manifest(c, [](Json& j) { j["format"] = 99; }); }, "upgrade dml"},
        Damage{"FilesMissing", [](auto& c) { edit_manifest(c, [](Json& j) { j.erase("files"); }); }, "lists no files"},
        Damage{"FilesArray", [](auto& c) { edit_manifest(c, [](Json& j) { j["files"] = Json::array({1}); }); },
               "lists no files"},
        Damage{"FilesEmpty", [](auto& c) { edit_manifest(c, [](Json& j) { j["files"] = Json::object(); }); },
               "lists no files"},
        Damage{"PathUpwards",
               [](auto& c) {
                 edit_manifest(
                     c, [](Json& j) { j["files"]["../checkpoint-5/manifest.json"] = j["files"]["model.safetensors"]; });
               },
               "not a file inside the directory"},
        Damage{"PathAbsolute",
               [](auto& c) {
                 edit_manifest(c, [](Json& j) { j["files"]["/etc/passwd"] = j["files"]["model.safetensors"]; });
               },
               "not a file inside the directory"},
        Damage{"SizeNegative",
               [](auto& c) { edit_manifest(c, [](Json& j) { j["files"]["model.safetensors"]["size"] = -1; }); },
               "needs a size"},
        Damage{"SizeOverflows",
               [](auto& c) { edit_manifest(c, [](Json& j) { j["files"]["model.safetensors"]["size"] = 1e30; }); },
               "needs a size"},
        Damage{"HashShort",
               [](auto& c) { edit_manifest(c, [](Json& j) { j["files"]["model.safetensors"]["xxh3"] = "00"; }); },
               "needs a size"},
        Damage{"HashOther",
               [](auto& c) {
                 edit_manifest(c, [](Json& j) { j["files"]["model.safetensors"]["xxh3"] = std::string(32, '0'); });
               },
               "are damaged"},
        Damage{"StateOfAnotherStep",
               [](auto& c) {
                 put(c + "/dml_state.json", train_state_text(state_of(8)));
                 write_manifest(c, Json::object());
               },
               "of another step"},
        Damage{"StateMissing",
               [](auto& c) {
                 fs::remove(c + "/dml_state.json");
                 write_manifest(c, Json::object());
               },
               "dml_state.json: no such file"}),
    [](auto& one) { return one.param.name; });

TEST(CheckpointDir, OtherNamesAreNotCheckpoints) {
  TempDir dir;
  save(dir.path(), 5);
  for (const char* name : {"checkpoint-", "checkpoint-x", "checkpoint-07", "checkpoint--1",
                           "checkpoint-99999999999999999999", ".checkpoint-8.tmp-1-0"})
    fs::create_directory(dir / name);
  fs::create_directory_symlink("checkpoint-5", dir / "checkpoint-6");
  put(dir / "latest", "checkpoint-1234\n");
  EXPECT_THAT(steps(dir.path()), ElementsAre(5));
  EXPECT_EQ(find_checkpoint(dir.path()).newest->step, 5);
}

TEST(Rotation, KeepsTheNewestAndTheBest) {
  TempDir dir;
  for (int step : {1, 2, 3, 4, 5}) save(dir.path(), step);
  rotate_checkpoints(dir.path(), 0);
  EXPECT_THAT(steps(dir.path()), ElementsAre(5, 4, 3, 2, 1));
  rotate_checkpoints(dir.path(), 3, 2);
  EXPECT_THAT(steps(dir.path()), ElementsAre(5, 4, 2));
  rotate_checkpoints(dir.path(), 1, 2);
  EXPECT_THAT(steps(dir.path()), ElementsAre(5, 2));  // the best beside the newest, whatever the limit
  rotate_checkpoints(dir.path(), 1);
  EXPECT_THAT(steps(dir.path()), ElementsAre(5));
}

TEST(Rotation, NeverCountsOrRemovesInvalidFolders) {
  TempDir dir;
  for (int step : {1, 2, 3}) save(dir.path(), step);
  fs::remove(dir / "checkpoint-3/manifest.json");
  rotate_checkpoints(dir.path(), 1);
  EXPECT_THAT(steps(dir.path()), ElementsAre(3, 2));
  EXPECT_EQ(find_checkpoint(dir.path()).newest->step, 2);
}

TEST(Rotation, RemovesLeftoversOfKilledRuns) {
  TempDir dir;
  save(dir.path(), 1);
  pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  std::string dead = fmt::format(".checkpoint-4.tmp-{}-0", child),
              own = fmt::format(".checkpoint-4.tmp-{}-0", getpid());
  for (auto& name : {dead, own, std::string(".other")}) put(dir / (name + "/file"), "x");
  rotate_checkpoints(dir.path(), 0);
  EXPECT_FALSE(fs::exists(dir / dead));
  EXPECT_TRUE(fs::exists(dir / own));
  EXPECT_TRUE(fs::exists(dir / ".other"));
}

}  // namespace
}  // namespace dml
