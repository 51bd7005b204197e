// Adapters as GGUF files: B A of every matrix, in llama.cpp's order of rows, times alpha / r, is what PEFT's file says.
#include "exchange/gguf_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "checkpoint/model_config.h"
#include "core/error.h"
#include "exchange/gguf_file.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
const std::string kFamilies = DML_SOURCE_DIR "/tests/golden/";

std::vector<float> floats(const GgufTensorView& t) {
  std::vector<float> out(static_cast<std::size_t>(t.elements()));
  std::memcpy(out.data(), t.data.data(), t.data.size());
  return out;
}

// (rows × r) · (r × cols)
std::vector<double> product(std::span<const float> b, std::span<const float> a, std::int64_t rows, std::int64_t r,
                            std::int64_t cols) {
  std::vector<double> out(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < r; ++k)
      for (std::int64_t j = 0; j < cols; ++j)
        out[static_cast<std::size_t>(i * cols + j)] +=
            static_cast<double>(b[static_cast<std::size_t>(i * r + k)]) * a[static_cast<std::size_t>(k * cols + j)];
  return out;
}

// Where llama.cpp has a row of Hugging Face's: the halves of a head in turn.
std::int64_t paired_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}

TEST(GgufAdapters, ComputeTheSameAsPeftsFile) {
  int seen = 0;
  for (const char* family : {"llama_tiny", "qwen2", "gemma", "phi3"}) {
    const std::string folder = kFamilies + family;
    if (!fs::exists(folder + "/lora/adapter_config.json")) continue;
    SCOPED_TRACE(family);
    const testing_tools::TemporaryFolder out;
    const ModelSpec spec = read_model_spec(folder + "/model");
    Adapter adapter = read_adapter(folder + "/lora", spec);
    // Another scale for one module, which goes into its B.
    adapter.plan.modules.back().scale *= 3;
    try {
      write_gguf_adapter(out / "a.gguf", adapter, spec, gguf_file_type("f32"), folder);
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), HasSubstr("dml merge --format gguf"));
      continue;
    }
    ++seen;
    const GgufFile file(out / "a.gguf");
    EXPECT_EQ(file.text("general.type"), "adapter");
    EXPECT_EQ(file.text("adapter.type"), "lora");
    EXPECT_EQ(file.tensors().size(), 2 * adapter.plan.modules.size());
    const double alpha = file.number("adapter.lora.alpha");
    for (std::size_t m = 0; m < adapter.plan.modules.size(); ++m) {
      const AdaptedModule& module = adapter.plan.modules[m];
      std::span<const float> a, b;
      for (const AdapterTensor& t : adapter.tensors) {
        if (t.module != module.module.name) continue;
        if (t.kind == AdapterTensor::Kind::a) a = adapter.values.at(t.key);
        if (t.kind == AdapterTensor::Kind::b) b = adapter.values.at(t.key);
      }
      const GgufTensorView &down = file.tensors()[2 * m], &up = file.tensors()[2 * m + 1];
      EXPECT_TRUE(down.name.ends_with(".weight.lora_a") && up.name.ends_with(".weight.lora_b")) << down.name;
      const std::int64_t rows = module.module.rows, cols = module.module.cols;
      EXPECT_THAT(down.shape, testing::ElementsAre(module.r, cols));
      EXPECT_THAT(up.shape, testing::ElementsAre(rows, module.r));
      const auto theirs = product(floats(up), floats(down), rows, module.r, cols),
                 ours = product(b, a, rows, module.r, cols);
      const bool paired = spec.model_type == "llama" && (up.name.find("attn_q.") != std::string::npos ||
                                                         up.name.find("attn_k.") != std::string::npos);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c)
          ASSERT_NEAR(theirs[static_cast<std::size_t>((paired ? paired_row(r, spec.head_dim) : r) * cols + c)] * alpha /
                          static_cast<double>(module.r),
                      ours[static_cast<std::size_t>(r * cols + c)] * module.scale, 1e-6)
              << up.name << " " << r;
    }
  }
  EXPECT_GE(seen, 1);
}

TEST(GgufAdapters, RejectWhatTheFileCannotHold) {
  const std::string folder = kFamilies + "llama_tiny";
  const ModelSpec spec = read_model_spec(folder + "/model");
  Adapter adapter;
  adapter.config.use_dora = true;
  adapter.config.lora_bias = true;
  const testing_tools::TemporaryFolder out;
  EXPECT_THAT([&] { write_gguf_adapter(out / "a.gguf", adapter, spec, gguf_file_type("f32"), "mine"); },
              testing::ThrowsMessage<UserError>(testing::AllOf(
                  HasSubstr("mine: a GGUF adapter holds no magnitudes of DoRA"), HasSubstr("no biases"))));
  EXPECT_THAT([&] { write_gguf_adapter(out / "a.gguf", adapter, spec, gguf_file_type("q8_0"), "mine"); },
              testing::ThrowsMessage<UserError>(HasSubstr("not as q8_0")));
  EXPECT_FALSE(fs::exists(out / "a.gguf"));
}

// llama.cpp multiplies by them without looking for an adapter: it would compute another model without a word.
TEST(GgufAdapters, WhatLlamaCppWouldIgnoreIsRejected) {
  const ModelSpec spec = read_model_spec(kFamilies + "deepseek_v3/model");
  const testing_tools::TemporaryFolder out;
  for (const char* name : {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"}) {
    Adapter adapter;
    adapter.config.target_modules = {name};
    adapter.config.r = 2;
    adapter.plan = plan_adapter(adapter.config, spec, "mine");
    EXPECT_THAT([&] { write_gguf_adapter(out / "a.gguf", adapter, spec, gguf_file_type("f32"), "mine"); },
                testing::ThrowsMessage<UserError>(testing::AllOf(
                    HasSubstr(fmt::format("layers.0.self_attn.{}', which llama.cpp would pass over", name)),
                    HasSubstr("dml merge --format gguf"))));
  }
}

TEST(GgufAdapters, OfExpertsAreRefusedByName) {
  ModelSpec spec = read_model_config({{"model_type", "mixtral"},
                                      {"vocab_size", 64},
                                      {"hidden_size", 32},
                                      {"intermediate_size", 64},
                                      {"num_hidden_layers", 1},
                                      {"num_attention_heads", 2},
                                      {"num_key_value_heads", 1},
                                      {"num_local_experts", 4},
                                      {"num_experts_per_tok", 2}},
                                     "config");
  Adapter adapter;
  adapter.config.target_modules = {"w1"};
  adapter.config.r = 2;
  adapter.plan = plan_adapter(adapter.config, spec, "mine");
  const testing_tools::TemporaryFolder out;
  EXPECT_THAT([&] { write_gguf_adapter(out / "a.gguf", adapter, spec, gguf_file_type("f32"), "mine"); },
              testing::ThrowsMessage<UserError>(HasSubstr("experts.0.w1', an expert or a router")));
}

}  // namespace
}  // namespace dml
