// Logs for TensorBoard and Weights & Biases, read by programs of others (tests/clients/trackers.mjs), and for MLflow,
// read by itself or by its rules (tests/clients/mlflow_store.py); with what they need or not at all.
#include <gmock/gmock.h>

#include <cstdlib>

#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

class Trackers : public Workshop {};

TEST_F(Trackers, FilesAreReadByProgramsOfOthers) {
  if (!has_program("node")) GTEST_SKIP() << "node is not there";
  const Keys keys = tiny_model() + Keys{{"max_steps", "4"},           {"eval_steps", "2"},
                                        {"generate_samples", "true"}, {"use_tensorboard", "true"},
                                        {"use_wandb", "true"},        {"wandb_project", "tests"},
                                        {"output_dir", at("run")},    {"generation_max_new_tokens", "4"}};
  Ended e = train(1, recipe("r.yml", keys));
  ASSERT_EQ(e.exit, 0) << e.err;
  Words words{"node", DML_SOURCE_DIR "/tests/clients/trackers.mjs", at("run")};
  // A folder in which `npm install protobufjs @roboflow/tfrecords` was run.
  if (const char* folder = std::getenv("DML_NODE_MODULES")) words.push_back(folder);
  e = run(words);
  EXPECT_EQ(e.exit, 0) << e.out << e.err;
  if (e.out.starts_with("skipped:")) GTEST_SKIP() << e.out;
  EXPECT_THAT(e.out, testing::HasSubstr("4 losses"));
}

// Also after a resumed training, whose later values are removed first.
TEST_F(Trackers, MlflowsStoreIsReadAsItsFileStoreReadsIt) {
  if (!has_program("python3")) GTEST_SKIP() << "python3 is not there";
  const std::string r = recipe("r.yml", tiny_model() + Keys{{"max_steps", "4"},
                                                            {"eval_steps", "2"},
                                                            {"save_steps", "1"},
                                                            {"use_mlflow", "true"},
                                                            {"mlflow_experiment_name", "'tests: one'"},
                                                            {"output_dir", at("run")}});
  for (const Words& how : {Words{}, Words{"--resume", at("run/checkpoint-1")}}) {
    Ended e = train(1, r, how);
    ASSERT_EQ(e.exit, 0) << e.err;
    e = run({"python3", DML_SOURCE_DIR "/tests/clients/mlflow_store.py", at("run")});
    EXPECT_EQ(e.exit, 0) << e.out << e.err;
    if (e.out.starts_with("skipped:")) GTEST_SKIP() << e.out;
    EXPECT_THAT(e.out, testing::HasSubstr("4 losses"));
  }
}

}  // namespace
}  // namespace dml::e2e
