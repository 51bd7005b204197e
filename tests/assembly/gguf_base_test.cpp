// LoRA on a GGUF file: loss and gradients are those of a float32 model with the values that the file's blocks stand for, also
// after the file's pages were given back.
#include <gtest/gtest.h>

#include <cmath>

#include "assembly/base_model.h"
#include "checkpoint/model_config.h"
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
  Json config = {{"model_type", family},     {"vocab_size", 96},        {"hidden_size", 256},
                 {"intermediate_size", 512}, {"num_hidden_layers", 2},  {"num_attention_heads", 4},
                 {"num_key_value_heads", 2}, {"head_dim", 64},          {"max_position_embeddings", 64},
                 {"eos_token_id", 2},        {"bos_token_id", 1}};
  if (family == std::string_view("mixtral")) config.update({{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  return read_model_config(config, family);
}

struct Batch {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};

  Batch() {
    const Random random(7, Purpose::sample);
    for (std::int32_t length : {23, 40}) {
      for (std::int32_t t = 0; t < length; ++t) {
        tokens.push_back(static_cast<Token>(random.below(tokens.size(), 96)));
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
  const auto model = build_on(base, Storage::automatic, training, base.directory);
  base.release();
  const Batch batch;
  Step step;
  model->set_length(64);
  for (Unit& u : model->parameters.units()) {
    step.gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
    u.grad = step.gradients.back().data();
  }
  model->reserve(model->measure({batch.view().size(), batch.view().learned(), batch.view().documents()}, true));
  UnitHooks no_hooks;
  step.loss = model->train(batch.view(), {}, no_hooks) / static_cast<double>(batch.view().learned());
  return step;
}

class GgufBase : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(GgufBase, TrainsAsItsDequantisedValuesDo) {
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
  BaseModel quantised;
  quantised.spec = spec, quantised.directory = path;
  quantised.files = std::make_shared<ModelFiles>(gguf_weights(std::make_shared<GgufFile>(path), spec));

  std::vector<TensorInfo> infos;
  for (const TensorView& t : quantised.files->tensors())
    infos.push_back({std::string(t.name), Dtype::f32, {t.shape.begin(), t.shape.end()}});
  ModelWriter writer(folder.path(), infos);
  for (const TensorInfo& info : writer.tensors()) writer.append_floats(quantised.files->find(info.name)->floats(""));
  writer.commit();
  BaseModel plain;
  plain.spec = spec, plain.directory = folder.path();
  plain.files = std::make_shared<ModelFiles>(folder.path());

  const Step got = step_on(quantised), want = step_on(plain);
  EXPECT_TRUE(want.loss > 1 && want.loss < 20) << want.loss;
  EXPECT_NEAR(got.loss / want.loss, 1, 1e-4);
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (std::size_t u = 0; u < want.gradients.size(); ++u) {
    float largest = 0;
    for (float g : want.gradients[u]) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < want.gradients[u].size(); ++i)
      ASSERT_NEAR(got.gradients[u][i], want.gradients[u][i], 1e-4f * largest) << u << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GgufBase,
                         testing::Combine(testing::Values("llama", "mixtral"),
                                          testing::Values("f16", "q8_0", "q4_k_m", "q5_k_m")),
                         [](auto& row) { return std::string(std::get<0>(row.param)) + "_" + std::get<1>(row.param); });

}  // namespace
}  // namespace dml
