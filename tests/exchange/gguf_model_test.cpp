// GGUF files as models: what was written comes back – config, every value, tokenizer – and llama.cpp's order of rows with it.
#include "exchange/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "checkpoint/model_config.h"
#include "checkpoint/model_report.h"
#include "core/error.h"
#include "exchange/gguf_export.h"
#include "exchange/gguf_families.h"
#include "kernels/quant_ggml.h"
#include "temporary_folder.h"
#include "tokenizer/tokenizer.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kModels = DML_SOURCE_DIR "/tests/golden/";
const std::string kData = DML_SOURCE_DIR "/../shared/data/";

// llama.cpp's Gemma has the scale of scores and the windows of the published models; the goldens have others.
ModelSpec as_published(ModelSpec s) {
  if (s.model_type != "gemma2" && s.model_type != "gemma3_text") return s;
  s.scores.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  s.windows.clear();
  for (std::int64_t l = 0; l < s.layers; ++l)
    s.windows.push_back((s.model_type == "gemma2" ? l % 2 == 0 : (l + 1) % 6 != 0) ? 8 : 0);
  return s;
}

class GgufModels : public testing::Test {
 protected:
  std::string write(const std::string& directory, const std::string& type) const {
    const ModelSpec spec = as_published(read_model_spec(directory));
    const ModelFiles files(directory);
    const std::string path = folder_ / ("model-" + type + ".gguf");
    write_gguf({"name", directory, spec, gguf_file_type(type), rows_of_files(files)}, path);
    return path;
  }
  const testing_tools::TemporaryFolder folder_;
};

// What a GGUF file does not hold, or says in another way.
ModelSpec comparable(ModelSpec s) {
  if (s.model_type == "mistral") s.model_type = "llama", s.windows.clear();
  if (s.model_type.starts_with("qwen")) s.windows.clear();
  s.init_range = 0;
  s.bos = s.pad = -1, s.eos.clear();
  s.scores.scale = 0;
  s.embedding_scale = std::round(s.embedding_scale * 16) / 16;  // of a model in bf16 it is rounded to bf16
  for (RopeSpec* r : {&s.rope, s.rope_local ? &*s.rope_local : nullptr}) {
    if (!r) continue;
    r->factor = static_cast<float>(r->factor), r->theta = static_cast<float>(r->theta);
    for (auto* list : {&r->long_factor, &r->short_factor})
      for (double& x : *list) x = static_cast<float>(x);
    if (r->scaling == RopeScaling::longrope) r->factor = r->attention_factor = 0;
  }
  s.norm.eps = static_cast<float>(s.norm.eps);
  return s;
}

TEST_F(GgufModels, ComeBackWithTheirConfigAndValues) {
  for (const char* family : {"llama_tiny", "llama_bias", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3",
                             "olmo2", "gpt2", "stablelm", "stablelm_heads", "stablelm_parallel", "gpt_neox", "gpt_neox_serial", "falcon",
                             "falcon_groups", "apertus", "seed_oss", "arcee", "granite", "glm4", "starcoder2", "nemotron"}) {
    SCOPED_TRACE(family);
    const std::string directory = kModels + family + "/model";
    const ModelSpec spec = as_published(read_model_spec(directory));
    const ModelFiles before(directory);
    const auto file = std::make_shared<GgufFile>(write(directory, "f32"));
    const ModelSpec again = read_model_config(gguf_config(*file), "gguf");
    EXPECT_EQ(comparable(again), comparable(spec)) << dump(config_json(again, "")) << "\n" << dump(config_json(spec, ""));
    EXPECT_NEAR(again.attention_scale(0), spec.attention_scale(0), 1e-6);
    const ModelFiles after = gguf_weights(file, again);
    require_weights(after, again);
    for (const TensorView& t : after.tensors()) release_pages(t.bytes);  // as after they were read once
    for (const WeightName& w : weight_names(spec)) {
      const std::vector<float> old = before.find(w.tensor)->floats(""), now = after.find(w.tensor)->floats("");
      ASSERT_EQ(old.size(), now.size());
      for (std::size_t i = 0; i < old.size(); ++i)
        ASSERT_NEAR(old[i], now[i], spec.norm.offset != 0 ? 2e-7 : 0) << w.tensor << " " << i;
    }
  }
}

// Small models of the families that have no golden of their own, with the settings that llama.cpp has.
std::vector<Json> configs() {
  const Json sizes = {{"vocab_size", 64},       {"hidden_size", 32},           {"intermediate_size", 48}, {"num_hidden_layers", 4},
                      {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  std::vector<Json> out;
  auto add = [&](const char* family, Json own) {
    Json config = sizes;
    config["model_type"] = family;
    config.update(own);
    out.push_back(std::move(config));
  };
  const Json experts = {{"num_experts", 4}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}};
  auto with = [&](Json own) {
    own.update(experts);
    return own;
  };
  add("mixtral", with({{"sliding_window", nullptr}}));
  add("qwen2_moe", with({{"shared_expert_intermediate_size", 40}, {"norm_topk_prob", false}}));
  add("qwen3_moe", with({{"head_dim", 16}, {"norm_topk_prob", true}}));
  add("olmoe", with({{"num_key_value_heads", 4}}));
  add("granitemoe", with({{"embedding_multiplier", 3.0}, {"attention_multiplier", 0.25}, {"logits_scaling", 2.0}, {"residual_multiplier", 0.5}}));
  add("gpt_oss", with({{"head_dim", 16}, {"sliding_window", 8}, {"rope_theta", 150000.0}}));
  add("deepseek_v3", {{"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}, {"n_group", 2},
                      {"topk_group", 1}, {"first_k_dense_replace", 1}, {"q_lora_rank", 16}, {"kv_lora_rank", 8},
                      {"qk_nope_head_dim", 16}, {"qk_rope_head_dim", 8}, {"v_head_dim", 16}, {"num_key_value_heads", 4}});
  add("phi", {{"hidden_act", "gelu_new"}});
  add("olmo3", {{"sliding_window", 8}});
  add("exaone4", {{"sliding_window", nullptr}});
  add("smollm3", {});
  add("cohere2", {{"sliding_window", 8}, {"logit_scale", 0.5}});
  add("bloom", {{"n_layer", 4}, {"n_head", 4}});
  add("mpt", {{"d_model", 32}, {"n_layers", 4}, {"n_heads", 4}, {"max_seq_len", 512}});
  return out;
}

// A value for every place that bfloat16 holds exactly.
float value_at(const WeightName& w, std::int64_t row, std::int64_t col) {
  const std::int64_t mixed = row * 31 + col * 7 + w.layer * 13 + w.expert * 5 + static_cast<std::int64_t>(w.role) * 3 + w.bias;
  return static_cast<float>(mixed % 251 - 125) / 64;
}

TEST_F(GgufModels, OfEveryFamilyComeBackBitByBit) {
  auto rows = [](const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
    for (std::int64_t r = first; r < first + count; ++r)
      for (std::int64_t c = 0; c < w.cols; ++c) *out++ = value_at(w, r, c);
  };
  for (const Json& config : configs())
    for (const char* type : {"f32", "bf16"}) {
      SCOPED_TRACE(config["model_type"].get<std::string>() + " " + type);
      const ModelSpec spec = read_model_config(config, "config");
      const std::string path = folder_ / "model.gguf";
      fs::remove(path);
      write_gguf({"name", folder_.path(), spec, gguf_file_type(type), rows}, path);
      const auto file = std::make_shared<GgufFile>(path);
      const ModelSpec again = read_model_config(gguf_config(*file), "gguf");
      EXPECT_EQ(comparable(again), comparable(spec)) << dump(config_json(again, "")) << "\n" << dump(config_json(spec, ""));
      EXPECT_NEAR(again.attention_scale(0), spec.attention_scale(0), 1e-6);
      const ModelFiles after = gguf_weights(file, again);
      require_weights(after, again);
      const WeightRows read = rows_of_files(after);
      for (const WeightName& w : weight_names(again)) {
        std::vector<float> got(static_cast<std::size_t>(w.size()));
        read(w, 0, w.rows, got.data());
        for (std::int64_t i = 0; i < w.size(); ++i)
          ASSERT_EQ(got[static_cast<std::size_t>(i)], value_at(w, i / w.cols, i % w.cols)) << w.tensor << " " << w.expert << " " << i;
      }
    }
}

TEST_F(GgufModels, OfMixturesThatLlamaCppComputesOtherwiseAreRefused) {
  const auto keys_of = [&](const char* family, const Json& own) {
    for (Json config : configs())
      if (config["model_type"] == family) {
        config.update(own);
        const ModelSpec spec = read_model_config(config, "config");
        GgufMetadata m;
        write_model_keys(spec, gguf_family(spec.model_type, "here"), "here", m);
      }
  };
  EXPECT_THAT([&] { keys_of("qwen3_moe", {{"norm_topk_prob", false}}); },
              testing::ThrowsMessage<UserError>(HasSubstr("norm_topk_prob is false")));
  EXPECT_THAT([&] { keys_of("qwen3_moe", {{"mlp_only_layers", Json::array({1})}}); },
              testing::ThrowsMessage<UserError>(HasSubstr("mlp_only_layers")));
  EXPECT_THAT([&] { keys_of("exaone4", {{"sliding_window", 8}}); }, testing::ThrowsMessage<UserError>(HasSubstr("only from 64 layers on")));
  EXPECT_THAT([&] { keys_of("phi", {{"tie_word_embeddings", true}}); }, testing::ThrowsMessage<UserError>(HasSubstr("a head of its own")));
}

TEST_F(GgufModels, QuantisedRowsComeBackInOrder) {
  // Wide enough for the large blocks; the tensors' values tell their place.
  ModelSpec spec;
  spec.vocab = 64, spec.hidden = 256, spec.ffn = 512, spec.layers = 2, spec.heads = 4, spec.kv_heads = 2, spec.head_dim = 64;
  auto rows = [](const WeightName& w, std::int64_t first, std::int64_t count, float* out) {
    for (std::int64_t i = 0; i < count * w.cols; ++i)
      out[i] = std::sin(static_cast<float>(first * w.cols + i) * 0.37f + static_cast<float>(w.layer)) + static_cast<float>(w.role == WeightRole::k);
  };
  for (const char* type : {"q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0", "q5_1"}) {
    const std::string path = folder_ / (std::string(type) + ".gguf");
    write_gguf({"name", folder_.path(), spec, gguf_file_type(type), rows}, path);
    const auto file = std::make_shared<GgufFile>(path);
    const ModelFiles files = gguf_weights(file, spec);
    require_weights(files, spec);
    for (const TensorView& t : files.tensors()) release_pages(t.bytes);
    for (const WeightName& w : weight_names(spec)) {
      const TensorView& t = *files.find(w.tensor);
      if (w.vector) continue;
      ASSERT_TRUE(t.blocks) << w.tensor;
      std::vector<float> got = t.floats(""), want(got.size()), expected(got.size());
      rows(w, 0, w.rows, want.data());
      std::vector<std::uint8_t> bytes(t.bytes.size());
      t.blocks->quantise(want.data(), t.size() / t.blocks->values, bytes.data());
      EXPECT_TRUE(std::memcmp(bytes.data(), t.bytes.data(), bytes.size()) == 0) << w.tensor << " " << type;
    }
  }
}

TEST_F(GgufModels, OfKindsThatDmlLacksAreRefused) {
  const std::string path = folder_ / "odd.gguf";
  GgufMetadata m;
  m.set("general.architecture", GgufValue::text("mamba"));
  GgufWriter(path, m, {}).commit();
  EXPECT_THAT([&] { gguf_config(GgufFile(path)); }, testing::ThrowsMessage<UserError>(HasSubstr("architecture 'mamba' is not supported")));
  ModelSpec spec;
  spec.vocab = 4, spec.hidden = 256, spec.layers = 0, spec.tied = true;
  m.set("general.architecture", GgufValue::text("llama"));
  GgufWriter out(path, m, {{"token_embd.weight", {4, 256}, ggml_type("q2_k")}});
  const std::string zeros(4 * 84, '\0');
  out.append(zeros.data(), zeros.size());
  out.commit();
  EXPECT_THAT([&] { gguf_weights(std::make_shared<GgufFile>(path), spec); },
              testing::ThrowsMessage<UserError>(HasSubstr("'token_embd.weight' is q2_k; dml reads f32")));
}

// A tokenizer that went through a file gives the same ids.
class GgufTokenizers : public GgufModels, public testing::WithParamInterface<const char*> {};

TEST_P(GgufTokenizers, ComeBack) {
  const std::string directory = kData + GetParam();
  if (!fs::exists(directory)) GTEST_SKIP() << "no ../shared/data";
  const auto tokenizer = load_tokenizer(directory);
  ModelSpec spec;
  spec.vocab = tokenizer->size() + 2, spec.hidden = 32, spec.ffn = 32, spec.heads = spec.kv_heads = 1, spec.head_dim = 32;
  spec.layers = 0, spec.tied = true;
  const std::string path = folder_ / "model.gguf";
  auto zeros = [](const WeightName& w, std::int64_t, std::int64_t count, float* out) { std::fill_n(out, count * w.cols, 0.f); };
  write_gguf({"name", directory, spec, gguf_file_type("f16"), zeros}, path);
  write_gguf_companions(GgufFile(path), folder_.path());
  const auto again = load_tokenizer(folder_.path());
  EXPECT_EQ(again->bos, tokenizer->bos);
  EXPECT_EQ(again->eos, tokenizer->eos);
  EXPECT_EQ(again->chat_template, tokenizer->chat_template);
  for (std::string_view text : {pre_tokenizer_probe(), std::string_view("Once upon a time, there  was\na little girl."),
                                std::string_view(" leading"), std::string_view("<s>markup</s> <|im_end|>x <|eot_id|>")}) {
    EXPECT_EQ(again->encode(text, {.add_special = true}).ids, tokenizer->encode(text, {.add_special = true}).ids) << text;
    EXPECT_EQ(again->encode(text, {.parse_special = false}).ids, tokenizer->encode(text, {.parse_special = false}).ids) << text;
    const auto ids = tokenizer->encode(text).ids;
    EXPECT_EQ(again->decode(ids), tokenizer->decode(ids));
  }
}

INSTANTIATE_TEST_SUITE_P(Real, GgufTokenizers,
                         testing::Values("models/stories260K", "tokenizers/llama2", "tokenizers/llama3", "tokenizers/qwen2.5",
                                         "tokenizers/gpt2", "tokenizers/mistral-v1"));

}  // namespace
}  // namespace dml
