// Every family's golden model: its config is understood, its tensors are exactly those that weight_names() lists.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "checkpoint/config_fields.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_files.h"
#include "core/error.h"
#include "core/files.h"
#include "model/weight_names.h"

namespace dml {
namespace {
namespace fs = std::filesystem;

std::vector<std::string> golden_models() {
  std::vector<std::string> out;
  for (auto& e : fs::directory_iterator(DML_SOURCE_DIR "/tests/golden"))
    if (fs::exists(e.path() / "model/config.json")) out.push_back(e.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

class GoldenModel : public testing::TestWithParam<std::string> {
 protected:
  std::string directory() const { return std::string(DML_SOURCE_DIR "/tests/golden/") + GetParam() + "/model"; }
};

TEST_P(GoldenModel, HasExactlyTheTensorsThatAreListed) {
  ModelSpec spec = read_model_spec(directory());
  ModelFiles files(directory());
  std::map<std::string, std::string> expected, actual;
  for (auto& w : weight_names(spec)) expected[w.tensor] = shape_text(w.tensor_shape());
  for (auto& t : files.tensors()) actual[std::string(t.name)] = shape_text(t.shape);
  EXPECT_EQ(expected, actual);
}

TEST_P(GoldenModel, HasTheParametersOfItsFile) {
  ModelSpec spec = read_model_spec(directory());
  std::int64_t in_file = 0;
  ModelFiles files(directory());
  for (auto& t : files.tensors()) in_file += t.size();
  EXPECT_EQ(spec.parameters(), in_file);
}

TEST_P(GoldenModel, FusedPartsCoverTheirTensor) {
  std::map<std::string, std::int64_t> covered, whole;
  for (auto& w : weight_names(read_model_spec(directory()))) {
    EXPECT_EQ(covered[w.tensor], w.first_row) << w.tensor;
    covered[w.tensor] += w.rows;
    whole[w.tensor] = w.tensor_rows;
  }
  EXPECT_EQ(covered, whole);
}

// The embedding scale of Gemma depends on the type, so the config is written with the type that was read.
TEST_P(GoldenModel, ConfigSurvivesWritingAndReading) {
  Json original = read_json(directory() + "/config.json");
  ModelSpec spec = read_model_config(original, "original");
  Json written = config_json(spec, ConfigReader(original, "original").dtype());
  EXPECT_EQ(spec, read_model_config(written, "written")) << pretty_json(written);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenModel, testing::ValuesIn(golden_models()),
                         [](auto& one) { return one.param; });

TEST(GoldenModels, IncludeEveryFamily) {
  std::map<std::string, bool> seen;
  for (auto& name : golden_models())
    seen[read_model_spec(std::string(DML_SOURCE_DIR "/tests/golden/") + name + "/model").model_type] = true;
  auto has_experts = [](const Family& family) {  // tests/model/expert_families_test.cpp
    Json config{{"vocab_size", 8},
                {"hidden_size", 8},
                {"intermediate_size", 8},
                {"num_hidden_layers", 1},
                {"num_attention_heads", 1}};
    ModelSpec spec;
    const ConfigReader reader(config, family.model_type);
    ConfigFields fields(reader);
    family.fields(fields, spec);
    return spec.moe.experts > 0;
  };
  for (auto& f : families()) EXPECT_TRUE(seen[f.model_type] || has_experts(f)) << f.model_type;
}

TEST(GoldenRopes, SurviveWritingAndReading) {
  for (const char* name : {"linear", "dynamic", "llama3", "yarn", "longrope"}) {
    ModelSpec spec = read_model_config(
        read_json(fmt::format("{}/tests/golden/llama_rope/{}/config.json", DML_SOURCE_DIR, name)), name);
    EXPECT_NE(spec.rope.scaling, RopeScaling::none);
    EXPECT_EQ(spec, read_model_config(config_json(spec, "float32"), "written")) << name;
  }
}

TEST(SharedModel, Stories260KIsRead) {
  std::string directory = DML_SOURCE_DIR "/../shared/data/models/stories260K";
  if (!fs::exists(directory)) GTEST_SKIP() << "no ../shared/data";
  ModelSpec spec = read_model_spec(directory);
  EXPECT_EQ(spec.parameters(), 260032);
  EXPECT_TRUE(spec.tied);
  EXPECT_EQ(spec.eos, std::vector<Token>{2});
  ModelFiles files(directory);
  for (auto& w : weight_names(spec)) {
    auto* t = files.find(w.tensor);
    ASSERT_TRUE(t) << w.tensor;
    EXPECT_EQ(shape_text(t->shape), shape_text(w.tensor_shape()));
  }
}

TEST(Families, EachHasItsRowInTheTable) {
  std::string table = read_file(DML_SOURCE_DIR "/recipes/MODELS.md");
  for (const Family& family : families())
    EXPECT_NE(table.find("| `" + family.model_type + "` |"), std::string::npos) << family.model_type;
}

}  // namespace
}  // namespace dml
