// Every family that llama.cpp has, written and read again: config and values, bit by bit; experts in mxfp4; what
// llama.cpp computes otherwise is refused.
#include "exchange/gguf_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "checkpoint/model_config.h"
#include "checkpoint/model_report.h"
#include "core/error.h"
#include "exchange/gguf_export.h"
#include "exchange/gguf_model.h"
#include "exchange/gguf_models.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class GgufFamilies : public testing::Test {
 protected:
  const testing_tools::TemporaryFolder folder_;
};

// Small models of the families that have no golden of their own, with the settings that llama.cpp has.
std::vector<Json> configs() {
  const Json sizes = {{"vocab_size", 64},        {"hidden_size", 32},        {"intermediate_size", 48},
                      {"num_hidden_layers", 4},  {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                      {"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  std::vector<Json> out;
  auto add = [&](const char* family, Json own) {
    Json config = sizes;
    config["model_type"] = family;
    config.update(own);
    out.push_back(std::move(config));
  };
  auto with = [](Json own) {
    own.update({{"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}});
    return own;
  };
  auto with_local = [](Json own) {
    own.update({{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
    return own;
  };
  add("mixtral", with_local({{"sliding_window", nullptr}}));
  add("qwen2_moe", with({{"shared_expert_intermediate_size", 40}, {"norm_topk_prob", false}}));
  add("qwen3_moe", with({{"head_dim", 16}, {"norm_topk_prob", true}}));
  add("olmoe", {{"num_key_value_heads", 4}, {"num_experts", 4}, {"num_experts_per_tok", 2}});
  add("granitemoe", with_local({{"embedding_multiplier", 3.0},
                                {"attention_multiplier", 0.25},
                                {"logits_scaling", 2.0},
                                {"residual_multiplier", 0.5}}));
  add("gpt_oss", with_local({{"head_dim", 16}, {"sliding_window", 8}, {"rope_theta", 150000.0}}));
  add("deepseek_v3", {{"n_routed_experts", 4},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 24},
                      {"n_group", 2},
                      {"topk_group", 1},
                      {"first_k_dense_replace", 1},
                      {"q_lora_rank", 16},
                      {"kv_lora_rank", 8},
                      {"qk_nope_head_dim", 16},
                      {"qk_rope_head_dim", 8},
                      {"v_head_dim", 16},
                      {"num_key_value_heads", 4}});
  add("phi", {{"hidden_act", "gelu_new"}});
  add("olmo3", {{"sliding_window", 8}});
  add("exaone4", {{"sliding_window", nullptr}});
  add("smollm3", Json::object());
  add("gpt_neox", {{"rotary_pct", 0.5}, {"num_key_value_heads", 4}, {"hidden_act", "gelu"}});
  add("cohere2", {{"sliding_window", 8}, {"logit_scale", 0.5}});
  add("bloom", {{"n_layer", 4}, {"n_head", 4}});
  add("mpt", {{"d_model", 32}, {"n_layers", 4}, {"n_heads", 4}, {"max_seq_len", 512}});
  return out;
}

// A value for every place that bfloat16 holds exactly.
float value_at(const WeightName& w, std::int64_t row, std::int64_t col) {
  const std::int64_t mixed =
      row * 31 + col * 7 + w.layer * 13 + w.expert * 5 + static_cast<std::int64_t>(w.role) * 3 + w.bias;
  return static_cast<float>(mixed % 251 - 125) / 64;
}

using ValueAt = std::function<float(const WeightName& w, std::int64_t row, std::int64_t col)>;

WeightRows rows_of(const ValueAt& value) {
  return [value](const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
    for (std::int64_t r = first; r < first + count; ++r)
      for (std::int64_t c = 0; c < w.cols; ++c) *out++ = value(w, r, c);
  };
}

void expect_values(const ModelFiles& files, const ModelSpec& spec, const ValueAt& value) {
  require_weights(files, spec);
  const WeightRows read = rows_of_files(files);
  for (const WeightName& w : weight_names(spec)) {
    std::vector<float> got(static_cast<std::size_t>(w.size()));
    read(w, 0, w.rows, got.data());
    for (std::int64_t i = 0; i < w.size(); ++i)
      ASSERT_EQ(got[static_cast<std::size_t>(i)], value(w, i / w.cols, i % w.cols))
          << w.tensor << " " << w.expert << " " << i;
  }
}

TEST_F(GgufFamilies, OfEveryFamilySurviveTheRoundTripBitByBit) {
  const WeightRows rows = rows_of(value_at);
  for (const Json& config : configs())
    for (const char* type : {"f32", "bf16"}) {
      SCOPED_TRACE(config["model_type"].get<std::string>() + " " + type);
      const ModelSpec spec = read_model_config(config, "config");
      const std::string path = folder_ / "model.gguf";
      fs::remove(path);
      write_gguf({"name", folder_.path(), spec, gguf_file_type(type), rows}, path);
      const auto file = std::make_shared<GgufFile>(path);
      const ModelSpec again = read_model_config(gguf_config(*file), "gguf");
      EXPECT_EQ(comparable(again), comparable(spec)) << dump(config_json(again, "")) << "\n"
                                                     << dump(config_json(spec, ""));
      EXPECT_NEAR(again.attention_scale(0), spec.attention_scale(0), 1e-6);
      expect_values(gguf_weights(file, again), again, value_at);
    }
}

TEST_F(GgufFamilies, KeepExpertsInMxfp4) {
  for (Json config : configs()) {
    if (config["model_type"] != "gpt_oss") continue;
    config.update({{"hidden_size", 64}, {"intermediate_size", 96}});
    ModelSpec spec = read_model_config(config, "config");
    spec.moe.layout = ExpertLayout::mxfp4;
    // Experts: codes times a power of two for every 32; the rest as in other tests.
    auto value = [](const WeightName& w, std::int64_t r, std::int64_t c) {
      constexpr float kCodes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
      if (!w.coded) return value_at(w, r, c);
      const std::int64_t mixed = r * 7 + c * 3 + w.expert * 11 + w.layer + static_cast<std::int64_t>(w.role);
      return std::ldexp(kCodes[mixed % 8], static_cast<int>((r + c / 32 + w.expert) % 5) - 3) *
             (mixed % 3 == 0 ? -1.f : 1.f);
    };
    const std::string path = folder_ / "mxfp4.gguf";
    write_gguf({"name", folder_.path(), spec, gguf_file_type("bf16"), rows_of(value)}, path);
    const auto file = std::make_shared<GgufFile>(path);
    EXPECT_EQ(file->find("blk.0.ffn_down_exps.weight")->type->name, "mxfp4");
    ModelSpec again = read_model_config(gguf_config(*file), "gguf");
    const ModelFiles after = gguf_weights(file, again);
    fit_to_files(again, after);
    EXPECT_EQ(again.moe.layout, ExpertLayout::mxfp4);
    expect_values(after, again, value);
  }
}

// As llama.cpp's converter writes DeepSeek today: keys of every head turned, values apart, one key/value head.
TEST_F(GgufFamilies, WhoseLatentProjectionIsInTwoTensorsAreRead) {
  for (const Json& config : configs()) {
    if (config["model_type"] != "deepseek_v3") continue;
    const ModelSpec spec = read_model_config(config, "config");
    write_gguf({"name", folder_.path(), spec, gguf_file_type("f32"), rows_of(value_at)}, folder_ / "whole.gguf");
    const GgufFile whole(folder_ / "whole.gguf");
    GgufMetadata keys = whole.metadata();
    const LatentSpec& l = spec.latent;
    const auto number = [](std::int64_t x) { return GgufValue::u32(static_cast<std::uint32_t>(x)); };
    keys.set("deepseek2.attention.head_count_kv", number(1));
    keys.set("deepseek2.attention.key_length", number(l.kv_rank + l.rope));
    keys.set("deepseek2.attention.value_length", number(l.kv_rank));
    keys.set("deepseek2.attention.key_length_mla", number(l.nope + l.rope));
    keys.set("deepseek2.attention.value_length_mla", number(l.value));
    std::vector<GgufTensorInfo> infos;
    std::vector<std::vector<float>> data;
    for (const GgufTensorView& t : whole.tensors()) {
      std::vector<float> x(static_cast<std::size_t>(t.elements()));
      std::memcpy(x.data(), t.data.data(), t.data.size());
      const std::string name(t.name);
      if (const std::size_t at = name.find("attn_kv_b"); at != std::string::npos) {
        std::vector<float> k, v;
        for (std::int64_t h = 0; h < spec.heads; ++h) {
          const float* head = x.data() + h * (l.nope + l.value) * l.kv_rank;
          for (std::int64_t j = 0; j < l.kv_rank; ++j)
            for (std::int64_t i = 0; i < l.nope; ++i) k.push_back(head[i * l.kv_rank + j]);
          v.insert(v.end(), head + l.nope * l.kv_rank, head + (l.nope + l.value) * l.kv_rank);
        }
        infos.push_back({name.substr(0, at) + "attn_k_b.weight", {spec.heads, l.kv_rank, l.nope}, t.type});
        infos.push_back({name.substr(0, at) + "attn_v_b.weight", {spec.heads, l.value, l.kv_rank}, t.type});
        data.push_back(std::move(k)), data.push_back(std::move(v));
      } else {
        infos.push_back({name, t.shape, t.type});
        data.push_back(std::move(x));
      }
    }
    GgufWriter out(folder_ / "split.gguf", keys, infos);
    for (const auto& x : data) out.append(x.data(), x.size() * sizeof(float));
    out.commit();
    const auto file = std::make_shared<GgufFile>(folder_ / "split.gguf");
    const ModelSpec again = read_model_config(gguf_config(*file), "gguf");
    EXPECT_EQ(comparable(again), comparable(spec));
    expect_values(gguf_weights(file, again), again, value_at);
  }
}

TEST_F(GgufFamilies, OfMixturesThatLlamaCppComputesOtherwiseAreRefused) {
  const auto keys_of = [&](const char* family, const Json& own) {
    for (Json config : configs())
      if (config["model_type"] == family) {
        config.update(own);
        const ModelSpec spec = read_model_config(config, "config");
        GgufMetadata m;
        write_model_keys(spec, gguf_family(spec.model_type, "here"), "here", m);
      }
  };
  EXPECT_THAT(
      [&] {
        keys_of("qwen3_moe", {{"norm_topk_prob", false}});
      },
      testing::ThrowsMessage<UserError>(HasSubstr("norm_topk_prob is false")));
  EXPECT_THAT(
      [&] {
        keys_of("qwen3_moe", {{"mlp_only_layers", Json::array({1})}});
      },
      testing::ThrowsMessage<UserError>(HasSubstr("mlp_only_layers")));
  EXPECT_THAT(
      [&] {
        keys_of("exaone4", {{"sliding_window", 8}});
      },
      testing::ThrowsMessage<UserError>(HasSubstr("only from 64 layers on")));
  EXPECT_THAT(
      [&] {
        keys_of("phi", {{"tie_word_embeddings", true}});
      },
      testing::ThrowsMessage<UserError>(HasSubstr("a head of its own")));
  EXPECT_THAT(
      [&] {
        keys_of("gpt_oss", {{"attention_bias", false}});
      },
      testing::ThrowsMessage<UserError>(HasSubstr("always biases of q, k and v; this model has none")));
}

}  // namespace
}  // namespace dml
