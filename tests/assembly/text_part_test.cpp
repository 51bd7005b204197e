// A model that reads images, too: its text part computes what the same text model alone computes, is adapted under the
// names of transformers' modules, and is saved back with everything else as it came.
#include <gtest/gtest.h>

#include "assembly/model_output.h"
#include "checkpoint/model_config.h"
#include "core/files.h"
#include "model/golden.h"
#include "model/weight_slots.h"
#include "temporary_folder.h"

namespace dml {
namespace {

// The folder of a gemma3 around the golden gemma3_text, as files (first) or modules (second) are called.
void make_wrapped(const std::string& folder, const std::string& layout) {
  const std::string plain = golden_path("gemma3") + "/model";
  Json text = read_json(plain + "/config.json");
  Json whole = Json::object();
  whole["architectures"] = Json::array({"Gemma3ForConditionalGeneration"});
  whole["model_type"] = "gemma3";
  whole["torch_dtype"] = text["torch_dtype"];
  whole["tie_word_embeddings"] = true;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) whole[key] = text[key];
  for (const char* key : {"architectures", "torch_dtype", "tie_word_embeddings", "bos_token_id", "eos_token_id"})
    text.erase(key);
  whole["text_config"] = text;
  whole["vision_config"] = {{"hidden_size", 4}};
  write_file(folder + "/config.json", pretty_json(whole));
  const ModelFiles files(plain);
  std::vector<TensorInfo> infos;
  for (const TensorView& t : files.tensors())
    infos.push_back({layout + std::string(t.name).substr(std::string_view("model.").size()),
                     t.dtype,
                     {t.shape.begin(), t.shape.end()}});
  infos.push_back({"vision_tower.patch.weight", DType::f32, {2, 3}});
  ModelWriter writer(folder, infos);
  const float patch[] = {1, 2, 3, 4, 5, 6};
  for (const TensorInfo& info : writer.tensors()) {
    const TensorView* t =
        info.name.starts_with(layout) ? files.find("model." + info.name.substr(layout.size())) : nullptr;
    if (t) writer.append(t->bytes.data(), t->bytes.size());
    else writer.append(patch, sizeof patch);
  }
  writer.commit();
}

BaseModel base_at(const std::string& folder) {
  ModelSection section;
  section.base_model = folder;
  return open_base_model(section);
}

class TextPart : public testing::TestWithParam<const char*> {};

TEST_P(TextPart, ComputesTheSameAsAloneAndIsSavedWithTheRest) {
  testing_tools::TemporaryFolder wrapped, out;
  make_wrapped(wrapped.path(), GetParam());
  const BaseModel base = base_at(wrapped.path()), alone = base_at(golden_path("gemma3") + "/model");
  auto model = make_inference_model(base, std::nullopt), plain = make_inference_model(alone, std::nullopt);
  const GoldenBatch batch(golden_path("gemma3") + "/batch.json");
  UnitHooks no_hooks;
  std::vector<double> sums;
  for (CausalLm* m : {model.get(), plain.get()}) {
    m->set_length(batch.longest());
    m->reserve(m->measure(GoldenModel::shape(batch), false));
    sums.push_back(m->evaluate(batch.view(), no_hooks));
  }
  EXPECT_EQ(sums[0], sums[1]);

  write_model_directory(out.path(), base, *model, DType::bf16);
  const ModelFiles before(wrapped.path()), after(out.path());
  ASSERT_EQ(before.tensors().size(), after.tensors().size());
  for (const TensorView& t : before.tensors()) {
    const TensorView* same = after.find(t.name);
    ASSERT_TRUE(same) << t.name;
    EXPECT_EQ(same->dtype, t.dtype) << t.name;
    EXPECT_TRUE(std::ranges::equal(same->bytes, t.bytes)) << t.name;
  }
  EXPECT_EQ(read_json(out.path() + "/config.json"), read_json(wrapped.path() + "/config.json"));
}

TEST_P(TextPart, IsAdaptedUnderTheNamesOfModules) {
  testing_tools::TemporaryFolder wrapped;
  make_wrapped(wrapped.path(), GetParam());
  const BaseModel base = base_at(wrapped.path());
  std::size_t found = 0;
  for (const AdaptableModule& m : adaptable_modules(base.spec)) {
    if (m.head || m.embedding) continue;
    EXPECT_TRUE(m.name.starts_with("model.language_model.layers.")) << m.name;
    ++found;
  }
  EXPECT_EQ(found, 7 * static_cast<std::size_t>(base.spec.layers));
  AdapterConfig config;
  config.r = 2;
  config.target_pattern = R"(model.language_model.layers.[\d]+.(mlp|self_attn).(up|down|gate|q|k|v|o)_proj)";
  const auto tensors = adapter_tensors(config, base.spec, plan_adapter(config, base.spec, "test"));
  EXPECT_EQ(tensors.size(), 2 * found);
  EXPECT_EQ(tensors[0].key.rfind("base_model.model.model.language_model.layers.0.", 0), 0u) << tensors[0].key;
}

INSTANTIATE_TEST_SUITE_P(Layouts, TextPart, testing::Values("language_model.model.", "model.language_model."),
                         [](auto& row) { return row.index == 0 ? "files" : "modules"; });

}  // namespace
}  // namespace dml
