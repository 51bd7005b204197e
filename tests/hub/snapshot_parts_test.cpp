// Which parts of a model the cache has, and what is downloaded when it has only some.
#include "hub/snapshot_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "hub/fetch.h"
#include "hub/mock_hub.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PartsOfSnapshots : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& text = "{}") const {
    make_directories(snapshot_);
    write_file(snapshot_ + "/" + name, text);
  }
  std::string lacking(const SnapshotParts& needed = {}) const { return lacking_parts(snapshot_, needed); }

  const testing_tools::TemporaryFolder folder_;
  const std::string snapshot_ = folder_ / "models--org--model/snapshots/0123";
};

TEST_F(PartsOfSnapshots, AreNamedWhereTheyAreLacking) {
  EXPECT_EQ(lacking(), "config.json, weights, and tokenizer");
  add("tokenizer.json");
  EXPECT_EQ(lacking(), "config.json and weights");
  EXPECT_EQ(lacking({.config = false, .weights = false}), "");
  add("config.json");
  EXPECT_EQ(lacking(), "weights");
  add("model.safetensors");
  EXPECT_EQ(lacking(), "");
  fs::remove(snapshot_ + "/tokenizer.json");
  EXPECT_EQ(lacking(), "tokenizer");
  add("vocab.json");
  EXPECT_EQ(lacking(), "tokenizer");
  add("merges.txt");
  EXPECT_EQ(lacking(), "");
}

TEST_F(PartsOfSnapshots, IncludeEveryShard) {
  for (const char* name : {"config.json", "tokenizer.model", "model-00001-of-00002.safetensors"}) add(name);
  EXPECT_EQ(lacking(), "weights");  // without their index
  std::string map;                  // more tensors than an object of a small file may have keys
  for (int i = 0; i < 5000; ++i) map += "\"t" + std::to_string(i) + R"(": "model-00001-of-00002.safetensors", )";
  add("model.safetensors.index.json", R"({"weight_map": {)" + map + R"("z": "model-00002-of-00002.safetensors"}})");
  EXPECT_EQ(lacking(), "weights");
  add("model-00002-of-00002.safetensors");
  EXPECT_EQ(lacking(), "");
  add("model.safetensors.index.json", "damaged");
  EXPECT_EQ(lacking(), "");  // reading it says what is wrong
}

TEST_F(PartsOfSnapshots, ThatTheCommitDoesNotHaveAreNotLacking) {
  add("config.json");
  write_listed_files(snapshot_, {"config.json", "pytorch_model.bin"});
  EXPECT_EQ(lacking(), "");
  write_listed_files(snapshot_, {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"});
  add("model.safetensors");
  add("tokenizer.json");
  EXPECT_EQ(lacking(), "tokenizer");  // tokenizer_config.json has its template
  add("tokenizer_config.json");
  EXPECT_EQ(lacking(), "");
}

TEST_F(PartsOfSnapshots, OfAnAdapterAreItsWeights) {
  add("adapter_config.json");
  EXPECT_EQ(lacking(), "weights");
  add("adapter_model.safetensors");
  EXPECT_EQ(lacking(), "");
}

TEST_F(PartsOfSnapshots, OfAnAdapterOfMlxAreItsWeights) {
  add("adapter_config.json");
  write_listed_files(snapshot_, {"adapter_config.json", "adapters.safetensors", "0000100_adapters.safetensors"});
  EXPECT_EQ(lacking(), "weights");
  EXPECT_TRUE(belongs_to_model("adapters.safetensors"));
  EXPECT_FALSE(belongs_to_model("0000100_adapters.safetensors"));
  add("adapters.safetensors");
  EXPECT_EQ(lacking(), "");
}

// The model that a command names, with the cache as AutoTokenizer leaves it.
class PartialModels : public testing::Test {
 protected:
  PartialModels() {
    setenv("HF_ENDPOINT", hub_.endpoint().c_str(), 1);
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"})
      hub_.add(std::string("models/org/model/") + name, std::string("{\"") + name + "\": 1}");
    FetchRequest request;
    request.name = *parse_hub_name("org/model");
    request.include = {"tokenizer*"};
    snapshot_ = fetch_from_hub(HubClient(hub_.options()), request).folder;
    fs::remove_all(hub_.cache("models--org--model/listings"));
    hub_.forget_requests();
  }
  ~PartialModels() override {
    for (const char* name : {"HF_ENDPOINT", "HF_HUB_OFFLINE"}) unsetenv(name);
  }

  testing_tools::MockHub hub_;
  std::string snapshot_;
};

TEST_F(PartialModels, AreCompleted) {
  EXPECT_EQ(hub_model_folder("org/model"), snapshot_);
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"})
    EXPECT_TRUE(file_exists(snapshot_ + "/" + name)) << name;
  EXPECT_THAT(hub_.requests(), Not(HasSubstr("resolve/main/tokenizer.json")));
  fs::remove_all(hub_.cache("models--org--model/listings"));
  hub_.forget_requests();
  EXPECT_EQ(hub_model_folder("org/model"), snapshot_);
  EXPECT_EQ(hub_.requests(), "");  // complete, also without a list of its files
}

TEST_F(PartialModels, AreDownloadedWithoutWeightsThatNobodyReads) {
  EXPECT_EQ(hub_model_folder("org/model", {.config = false, .weights = false}), snapshot_);
  EXPECT_EQ(hub_.requests(), "");
  EXPECT_EQ(hub_model_folder("org/model", {.weights = false}), snapshot_);
  EXPECT_TRUE(file_exists(snapshot_ + "/config.json"));
  EXPECT_FALSE(file_exists(snapshot_ + "/model.safetensors"));
}

TEST_F(PartialModels, AreNamedOffline) {
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_THAT([] { hub_model_folder("org/model"); },
              testing::ThrowsMessage<UserError>(
                  AllOf(HasSubstr("only a part of model org/model, without its config.json and weights: " + snapshot_),
                        HasSubstr("To download it, unset HF_HUB_OFFLINE and run: dml fetch org/model"))));
  unsetenv("HF_HUB_OFFLINE");
  hub_model_folder("org/model");
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_EQ(hub_model_folder("org/model"), snapshot_);
  EXPECT_EQ(hub_model_folder("org/none"), std::nullopt);
}

}  // namespace
}  // namespace dml
