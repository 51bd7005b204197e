// What a run saves has the layout that its base came in, for every family: names, shapes, types, values, config.json.
// Also for bases in several files, in the other spelling of config.json, and with experts stacked instead of one by
// one.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "assembly/model_output.h"
#include "checkpoint/model_config.h"
#include "core/files.h"
#include "model/golden.h"
#include "temporary_folder.h"

namespace dml {
namespace {

BaseModel open_folder(const std::string& folder, bool nf4 = false, const std::string& cache = "") {
  ModelSection section;
  section.base_model = folder;
  AdapterSection adapter;
  adapter.adapter = nf4 ? AdapterKind::qlora : AdapterKind::none;
  adapter.load_in_4bit = nf4;
  if (nf4) adapter.quantized_cache_path = cache;
  return open_base_model(section, adapter);
}

DType dtype_of(const BaseModel& base) { return base.dtype(); }

void expect_same_tensors(const std::string& before_folder, const std::string& after_folder) {
  const ModelFiles before(before_folder), after(after_folder);
  EXPECT_EQ(before.tensors().size(), after.tensors().size());
  for (const TensorView& t : before.tensors()) {
    const TensorView* same = after.find(t.name);
    ASSERT_TRUE(same) << t.name;
    EXPECT_EQ(same->dtype, t.dtype) << t.name;
    EXPECT_TRUE(std::ranges::equal(same->shape, t.shape)) << t.name;
    EXPECT_TRUE(std::ranges::equal(same->bytes, t.bytes)) << t.name;
  }
}

// Trained in full, but for no step: all values are parameters, and are saved from there.
void expect_saved_as_it_came(const std::string& folder) {
  const testing_tools::TemporaryFolder out;
  const BaseModel base = open_folder(folder);
  Training training;
  training.full = true;
  const auto model = build_on(base, std::nullopt, training, folder);
  write_model_directory(out.path(), base, *model, dtype_of(base));
  expect_same_tensors(folder, out.path());
  EXPECT_EQ(read_json(out.path() + "/config.json"), read_json(folder + "/config.json"));
}

// The same tensors under other names and divided into several files.
void write_tensors(const std::string& folder,
                   const std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>>& tensors,
                   DType dtype, std::size_t shard = ModelWriter::kDefaultShard) {
  std::vector<TensorInfo> infos;
  for (auto& [name, tensor] : tensors) infos.push_back({name, dtype, tensor.first});
  ModelWriter writer(folder, infos, shard);
  for (const TensorInfo& info : writer.tensors()) writer.append_floats(tensors.at(info.name).second);
  writer.commit();
}

class FamilyFiles : public testing::TestWithParam<std::string> {
 protected:
  const std::string folder = golden_path(GetParam()) + "/model", adapter = golden_path(GetParam()) + "/lora";
  const testing_tools::TemporaryFolder made;
};

TEST_P(FamilyFiles, ASavedModelEqualsTheOneThatWasRead) { expect_saved_as_it_came(folder); }

TEST_P(FamilyFiles, AModelInSeveralFilesIsReadLikeOneInOne) {
  const ModelFiles files(folder);
  std::vector<TensorInfo> infos;
  for (const TensorView& t : files.tensors())
    infos.push_back({std::string(t.name), t.dtype, {t.shape.begin(), t.shape.end()}});
  constexpr std::size_t kSmall = 6000;
  ModelWriter writer(made.path(), infos, kSmall);
  for (const TensorInfo& info : writer.tensors())
    writer.append(files.find(info.name)->bytes.data(), files.find(info.name)->bytes.size());
  writer.commit();
  write_file(made.path() + "/config.json", read_file(folder + "/config.json", 1 << 20));
  EXPECT_GT(ModelFiles(made.path()).paths().size(), 2u);
  expect_saved_as_it_came(made.path());
  expect_same_tensors(folder, made.path());
}

TEST_P(FamilyFiles, TheOtherSpellingOfTheConfigIsEquivalent) {
  Json config = read_json(folder + "/config.json");
  if (config.contains("rope_parameters") || !config.contains("rope_theta") || config.contains("layer_types"))
    GTEST_SKIP() << "the config of this family has no second spelling of its rope";
  Json rope = config.contains("rope_scaling") && config["rope_scaling"].is_object() ? config["rope_scaling"]
                                                                                    : Json{{"rope_type", "default"}};
  rope["rope_theta"] = config["rope_theta"];
  if (config.contains("torch_dtype")) config["dtype"] = config["torch_dtype"];
  for (const char* key : {"rope_theta", "rope_scaling", "torch_dtype"}) config.erase(key);
  config["rope_parameters"] = rope;
  EXPECT_EQ(read_model_config(config, "new"), read_model_config(read_json(folder + "/config.json"), "old"));
  write_file(made.path() + "/config.json", pretty_json(config));
  write_file(made.path() + "/model.safetensors", read_file(folder + "/model.safetensors", std::size_t{1} << 26));
  expect_saved_as_it_came(made.path());
}

// W + s·BA by hand from the two files, in the file's own orientation; everything else as it was.
TEST_P(FamilyFiles, AMergedAdapterChangesItsTensorsAndNoOthers) {
  for (bool nf4 : {false, true}) {
    const testing_tools::TemporaryFolder out, cache;
    const BaseModel base = open_folder(folder, nf4, cache.path());
    const auto model = make_inference_model(base, std::nullopt, {adapter});
    write_merged_directory(out.path(), base, *model, DType::f32);
    const ModelFiles before(folder), after(out.path());
    const SafetensorsFile lora(adapter + "/adapter_model.safetensors");
    const Json config = read_json(adapter + "/adapter_config.json");
    const double scale = config["lora_alpha"].get<double>() / config["r"].get<double>();
    ASSERT_EQ(before.tensors().size(), after.tensors().size());
    std::size_t changed = 0;
    for (const TensorView& t : before.tensors()) {
      const TensorView* same = after.find(t.name);
      ASSERT_TRUE(same) << t.name;
      ASSERT_TRUE(std::ranges::equal(same->shape, t.shape)) << t.name;
      std::vector<float> want = t.floats(""), got = same->floats("");
      const std::string stem = "base_model.model." + std::string(t.name).substr(0, t.name.rfind('.'));
      const TensorView* a = t.name.ends_with(".weight") ? lora.find(stem + ".lora_A.weight") : nullptr;
      if (a) {
        ++changed;
        const auto down = a->floats(""), up = lora.at(stem + ".lora_B.weight").floats("");
        const std::int64_t r = a->shape[0], cols = a->shape[1], rows = std::ssize(up) / r;
        const bool turned = base.spec.stored.in_out;
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < cols; ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < r; ++k)
              sum += static_cast<double>(up[static_cast<std::size_t>(i * r + k)]) *
                     down[static_cast<std::size_t>(k * cols + j)];
            want[static_cast<std::size_t>(turned ? j * rows + i : i * cols + j)] += static_cast<float>(scale * sum);
          }
      }
      // A code of nf4 is off by at most 0.16 of its block's largest value.
      const std::vector<float> plain = t.floats("");
      const float largest = std::abs(*std::ranges::max_element(plain, {}, [](float x) { return std::abs(x); }));
      const bool coded = nf4 && a;
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i],
                    coded ? 0.17 * largest
                    : a   ? 2e-5
                    : nf4 ? 0.17 * largest
                          : 0)
            << t.name << " " << i;
    }
    EXPECT_EQ(changed, lora.tensors().size() / 2);
  }
}

// transformers 5 may save the experts of a layer as two tensors of three dimensions.
TEST_P(FamilyFiles, StackedExpertsAreSavedStacked) {
  const BaseModel base = open_folder(folder);
  if (base.spec.moe.layout != ExpertLayout::each || base.spec.moe.experts == 0) GTEST_SKIP() << "no experts one by one";
  ModelSpec stacked = base.spec;
  stacked.moe.layout = ExpertLayout::stacked;
  stacked.moe.naming = base.spec.model_type == "mixtral" ? &kQwenExperts : base.spec.moe.naming;
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> tensors;
  const auto single = weight_names(base.spec);
  for (const WeightName& w : weight_names(stacked)) {
    auto same = std::ranges::find_if(single, [&](const WeightName& s) {
      return s.role == w.role && s.layer == w.layer && s.expert == w.expert && s.bias == w.bias;
    });
    ASSERT_NE(same, single.end()) << w.tensor;
    auto& [shape, values] = tensors[w.tensor];
    shape = w.tensor_shape();
    values.resize(static_cast<std::size_t>(w.tensor_rows * w.cols));
    const auto part = base.files->find(same->tensor)->floats("");
    std::ranges::copy(part, values.begin() + w.first_row * w.cols);
  }
  write_tensors(made.path(), tensors, dtype_of(base));
  write_file(made.path() + "/config.json", read_file(folder + "/config.json", 1 << 20));
  EXPECT_EQ(open_folder(made.path()).spec.moe.layout, ExpertLayout::stacked);
  expect_saved_as_it_came(made.path());
}

INSTANTIATE_TEST_SUITE_P(Goldens, FamilyFiles, testing::ValuesIn(golden_families()),
                         [](auto& row) { return row.param; });

}  // namespace
}  // namespace dml
