// Every recipe that ships: it is valid, its data can be prepared, and it trains for two steps.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "e2e/child.h"

namespace dml::e2e {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> recipes_in(const std::string& folder) {
  std::vector<std::string> out;
  const std::string root = DML_SOURCE_DIR;
  for (auto& entry : fs::directory_iterator(root + "/" + folder))
    if (entry.path().extension() == ".yml") out.push_back(folder + "/" + entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

class Example : public testing::TestWithParam<std::string> {
 protected:
  Example() : folder_((fs::temp_directory_path() / fs::path("dml-example-XXXXXX")).string()) {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~Example() override { fs::remove_all(folder_); }
  // From the root of the sources, as the recipes say; what is written goes to a folder of its own.
  Ended dml_on(const std::string& command, const std::string& recipe, Words more = {}) const {
    Words words{command, recipe, "--output_dir", folder_ + "/out", "--dataset_prepared_path", folder_ + "/prepared"};
    words.insert(words.end(), more.begin(), more.end());
    Surroundings root;
    root.folder = DML_SOURCE_DIR;
    return dml(words, root);
  }
  std::string folder_;
};

TEST_P(Example, IsValidAndTrains) {
  const Ended valid = dml_on("validate", GetParam());
  EXPECT_EQ(valid.exit, 0) << valid.err;
  const Ended prepared = dml_on("preprocess", GetParam());
  EXPECT_EQ(prepared.exit, 0) << prepared.err;
  EXPECT_THAT(prepared.err + valid.err, testing::Not(testing::HasSubstr("warning:")));
  const Ended trained = dml_on("train", GetParam(), {"--max_steps", "2"});
  EXPECT_EQ(trained.exit, 0) << trained.err;
  EXPECT_TRUE(fs::exists(folder_ + "/out/model.safetensors")) << trained.err;
}

INSTANTIATE_TEST_SUITE_P(All, Example, testing::ValuesIn(recipes_in("examples")), [](auto& example) {
  std::string name = fs::path(example.param).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace dml::e2e
