// LoRA on a GGUF file, and on models of AWQ, GPTQ and mlx-lm: loss and gradients are those of a float32 model with the
// values that the blocks stand for, also after the file's pages were given back.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "assembly/base_model.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "core/random.h"
#include "exchange/gguf_export.h"
#include "exchange/gguf_file.h"
#include "exchange/gguf_model.h"
#include "kernels/quant_ggml.h"
#include "nn/hooks.h"
#include "temporary_folder.h"

namespace dml {
namespace {

ModelSpec wide_enough_for_large_blocks(const char* family) {
  Json config = {{"model_type", family},     {"vocab_size", 96},       {"hidden_size", 256},
                 {"intermediate_size", 512}, {"num_hidden_layers", 2}, {"num_attention_heads", 4},
                 {"num_key_value_heads", 2}, {"head_dim", 64},         {"max_position_embeddings", 64},
                 {"eos_token_id", 2},        {"bos_token_id", 1}};
  if (family == std::string_view("mixtral")) config.update({{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  return read_model_config(config, family);
}

struct Batch {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};

  explicit Batch(const ModelSpec& spec) {
    const Random random(7, Purpose::sample);
    const auto vocabulary = static_cast<std::uint64_t>(spec.vocab);
    for (std::int32_t length : {23, 40}) {
      for (std::int32_t t = 0; t < length; ++t) {
        tokens.push_back(static_cast<Token>(random.below(tokens.size(), vocabulary)));
        positions.push_back(t);
      }
      starts.push_back(static_cast<std::int32_t>(tokens.size()));
    }
    for (std::size_t t = 0; t < tokens.size(); ++t)
      labels.push_back(t + 1 < tokens.size() && positions[t + 1] > 4 ? tokens[t + 1] : kIgnore);
  }
  PackedBatch view() const { return {tokens, labels, positions, starts}; }
};

struct Step {
  double loss;
  std::vector<std::vector<float>> gradients;
};

// One pass with an adapter on every linear layer, started at random on both sides.
Step step_on(const BaseModel& base) {
  Training training;
  AdapterConfig config;
  config.r = 4;
  config.all_linear = true;
  config.init = "false";
  training.adapter = config;
  const auto model = build_on(base, std::nullopt, training, base.directory);
  base.release();
  const Batch batch(base.spec);
  Step step;
  model->set_length(64);
  for (Unit& u : model->parameters.units()) {
    step.gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
    u.grad = step.gradients.back().data();
  }
  model->reserve(model->measure({batch.view().size(), batch.view().trained(), batch.view().documents()}, true));
  UnitHooks no_hooks;
  step.loss = model->train(batch.view(), {}, no_hooks) / static_cast<double>(batch.view().trained());
  return step;
}

// The same model with matrices in float32, in a folder: the values of its blocks, or those that `others` has for a
// tensor.
BaseModel in_float32(const BaseModel& base, const std::string& folder,
                     const std::map<std::string, std::vector<float>>& others = {}) {
  std::vector<TensorInfo> infos;
  for (const TensorView& t : base.files->tensors())
    infos.push_back({std::string(t.name), DType::f32, {t.shape.begin(), t.shape.end()}});
  ModelWriter writer(folder, infos);
  for (const TensorInfo& info : writer.tensors()) {
    const auto other = others.find(info.name);
    writer.append_floats(other == others.end() ? base.files->find(info.name)->floats("") : other->second);
  }
  writer.commit();
  BaseModel plain;
  plain.spec = base.spec, plain.directory = folder;
  plain.files = std::make_shared<ModelFiles>(folder);
  return plain;
}

void expect_same_step(const BaseModel& quantized, const BaseModel& plain, double most) {
  const Step got = step_on(quantized), want = step_on(plain);
  EXPECT_TRUE(want.loss > 1 && want.loss < 20) << want.loss;
  EXPECT_NEAR(got.loss / want.loss, 1, most);
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (std::size_t u = 0; u < want.gradients.size(); ++u) {
    float largest = 0, off = 0;
    ASSERT_EQ(got.gradients[u].size(), want.gradients[u].size());
    for (const float g : want.gradients[u]) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < want.gradients[u].size(); ++i)
      off = std::max(off, std::abs(got.gradients[u][i] - want.gradients[u][i]));
    EXPECT_LE(off, most * largest) << "unit " << u;
  }
}

class GgufBase : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(GgufBase, TrainsLikeItsDequantizedValues) {
  const auto [family, type] = GetParam();
  const testing_tools::TemporaryFolder folder;
  const ModelSpec spec = wide_enough_for_large_blocks(family);
  auto rows = [](const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
    const Random random(
        static_cast<std::uint64_t>(w.layer * 100 + static_cast<std::int64_t>(w.role) + 40 * w.expert + 1000),
        Purpose::init);
    for (std::int64_t i = first * w.cols; i < (first + count) * w.cols; ++i)
      *out++ = w.vector ? 1.f : random.normal(static_cast<std::uint64_t>(i)) / std::sqrt(static_cast<float>(w.cols));
  };
  const std::string path = folder / "model.gguf";
  write_gguf({"name", folder.path(), spec, gguf_file_type(type), rows}, path);
  BaseModel quantized;
  quantized.spec = spec, quantized.directory = path;
  quantized.files = std::make_shared<ModelFiles>(gguf_weights(std::make_shared<GgufFile>(path), spec));

  const testing_tools::TemporaryFolder plain;
  expect_same_step(quantized, in_float32(quantized, plain.path()), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Types, GgufBase,
                         testing::Combine(testing::Values("llama", "mixtral"),
                                          testing::Values("f16", "q8_0", "q4_k_m", "q5_k_m")),
                         [](auto& row) { return std::string(std::get<0>(row.param)) + "_" + std::get<1>(row.param); });

class PackedBase : public testing::TestWithParam<const char*> {};

TEST_P(PackedBase, TrainsLikeItsUnpackedValues) {
  const std::string golden = DML_SOURCE_DIR "/tests/golden/packed/", format = GetParam();
  ModelSection section;
  section.base_model = golden + format;
  AdapterSection lora;
  lora.adapter = AdapterKind::lora;
  const BaseModel packed = open_base_model(section, lora);
  const testing_tools::TemporaryFolder plain, exact;
  expect_same_step(packed, in_float32(packed, plain.path()), 1e-4);

  // The format's own values. Half precision holds the offset of mlx-lm, not that of the others
  // (checkpoint/packed_groups.h).
  const SafetensorsFile values(golden + "expected.safetensors");
  std::map<std::string, std::vector<float>> matrices;
  for (const WeightName& w : weight_names(packed.spec))
    if (is_linear(w))
      matrices[w.tensor] =
          values.find((format == "mlx" ? "mlx." : "columns.") + w.tensor.substr(0, w.tensor.rfind(".weight")))
              ->floats("");
  ASSERT_EQ(matrices.size(), 7u);
  expect_same_step(packed, in_float32(packed, exact.path(), matrices), format == "mlx" ? 1e-4 : 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedBase, testing::Values("awq", "gptq", "mlx"),
                         [](auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace dml
