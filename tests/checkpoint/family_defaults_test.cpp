// What transformers 5 assumes where config.json is silent, as its configuration_*.py say; files from the Hub leave out
// what equals a default. And spellings that its loader takes.
#include <cmath>

#include "checkpoint/model_config.h"
#include "core/bf16.h"
#include "fixture.h"

namespace dml {
namespace {
using namespace testing_tools;
using kernels::Activation;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kHeads = 640, kHeadDim = 8, kLayers = 8;  // heads that every default of key/value heads divides

Json bare_config(const std::string& family) {
  return {{"model_type", family}, {"vocab_size", 300000},       {"hidden_size", kHeads * kHeadDim},
          {"n_layer", kLayers},   {"intermediate_size", 48},    {"num_hidden_layers", kLayers},
          {"n_head", kHeads},     {"n_heads", kHeads},          {"num_attention_heads", kHeads},
          {"n_layers", kLayers},  {"n_embd", kHeads * kHeadDim}};
}

ModelSpec spec_of(const std::string& family, const std::string& change = "{}") {
  Json config = bare_config(family);
  config.update(parse_json(change, "change"));
  return read_model_config(config, "config.json");
}

struct Assumed {
  const char* family;
  std::int64_t kv_heads, head_dim;
  double theta, partial, eps;
  bool tied;
  std::int64_t positions;
  Token bos, eos;
  Activation activation = Activation::silu;
};
void PrintTo(const Assumed& one, std::ostream* out) { *out << one.family; }

constexpr Assumed kAssumed[] = {
    {"llama", 640, 8, 1e4, 1, 1e-6, false, 2048, 1, 2},
    {"mistral", 8, 8, 1e4, 1, 1e-6, false, 131072, 1, 2},
    {"ministral", 8, 8, 1e4, 1, 1e-6, false, 131072, 1, 2},
    {"mixtral", 8, 8, 1e6, 1, 1e-5, false, 131072, 1, 2},
    {"qwen2", 32, 8, 1e4, 1, 1e-6, false, 32768, -1, -1},
    {"qwen2_moe", 16, 8, 1e4, 1, 1e-6, false, 32768, -1, -1},
    {"qwen3", 32, 128, 1e4, 1, 1e-6, false, 32768, -1, -1},
    {"qwen3_moe", 4, 8, 1e4, 1, 1e-6, false, 32768, -1, -1},
    {"gemma", 16, 256, 1e4, 1, 1e-6, true, 8192, 2, 1, Activation::gelu_tanh},
    {"gemma2", 4, 256, 1e4, 1, 1e-6, true, 8192, 2, 1, Activation::gelu_tanh},
    {"gemma3_text", 4, 256, 1e6, 1, 1e-6, true, 131072, 2, 1, Activation::gelu_tanh},
    {"phi", 640, 8, 1e4, 0.5, 1e-5, false, 2048, 1, 2, Activation::gelu_tanh},
    {"phi3", 640, 8, 1e4, 1, 1e-5, false, 4096, 1, 32000},
    {"glm", 2, 128, 1e4, 0.5, 1.5625e-7, false, 131072, -1, 151329},
    {"glm4", 2, 128, 1e4, 0.5, 1.5625e-7, false, 131072, -1, 151329},
    {"olmo2", 640, 8, 1e4, 1, 1e-5, false, 2048, -1, 50279},
    {"olmo3", 640, 8, 5e5, 1, 1e-5, false, 2048, -1, 50279},
    {"olmoe", 640, 8, 1e4, 1, 1e-5, false, 4096, -1, 50279},
    {"exaone4", 32, 8, 1e4, 1, 1e-5, false, 2048, 0, 2},
    {"cohere", 640, 8, 5e5, 1, 1e-5, true, 8192, 5, 255001},
    {"cohere2", 640, 8, 1e4, 1, 1e-5, true, 8192, 5, 255001},
    {"stablelm", 32, 8, 1e4, 0.25, 1e-5, false, 4096, 0, 0},
    {"nemotron", 640, 8, 1e4, 0.5, 1e-5, false, 4096, 2, 3, Activation::relu2},
    {"starcoder2", 2, 8, 1e4, 1, 1e-5, true, 4096, 50256, 50256, Activation::gelu_tanh},
    {"smollm3", 4, 8, 2e6, 1, 1e-6, true, 32768, 128000, 128001},
    {"arcee", 640, 8, 1e4, 1, 1e-5, false, 4096, 128000, 128001, Activation::relu2},
    {"apertus", 640, 8, 12e6, 1, 1e-5, false, 65536, 1, 2, Activation::xielu},
    {"seed_oss", 8, 128, 1e4, 1, 1e-6, false, 524288, 0, 2},
    {"ernie4_5", 2, 128, 5e5, 1, 1e-5, true, 131072, 1, 2},
    {"helium", 20, 128, 1e5, 1, 1e-8, false, 4096, 1, 2},
    {"hunyuan_v1_dense", 640, 8, 1e4, 1, 1e-5, false, 2048, 1, 2},
    {"granite", 640, 8, 1e4, 1, 1e-6, false, 2048, 1, 2},
    {"granitemoe", 640, 8, 1e4, 1, 1e-6, false, 2048, 1, 2},
    {"gpt_oss", 8, 64, 15e4, 1, 1e-5, false, 131072, -1, -1, Activation::clamped_silu},
    {"gpt_neox", 640, 8, 1e4, 0.25, 1e-5, false, 2048, 0, 2, Activation::gelu},
    {"falcon", 1, 8, 1e4, 1, 1e-5, true, 2048, 11, 11, Activation::gelu},
    {"gpt2", 640, 8, 1e4, 1, 1e-5, true, 1024, 50256, 50256, Activation::gelu_tanh},
    {"bloom", 640, 8, 1e4, 1, 1e-5, true, 2048, 1, 2, Activation::gelu_tanh},
    {"mpt", 640, 8, 1e4, 1, 1e-5, true, 2048, -1, -1, Activation::gelu},
};

class Defaults : public testing::TestWithParam<Assumed> {};

TEST_P(Defaults, OfAFamilyAreThoseOfTransformers) {
  const Assumed& a = GetParam();
  const ModelSpec s = spec_of(a.family, std::string(a.family) == "mpt" ? R"({"d_model": 5120})" : "{}");
  EXPECT_EQ(s.kv_heads, a.kv_heads);
  EXPECT_EQ(s.head_dim, a.head_dim);
  EXPECT_EQ(s.rope.theta, a.theta);
  EXPECT_EQ(s.rope.partial, a.partial);
  EXPECT_EQ(s.norm.eps, a.eps);
  EXPECT_EQ(s.tied, a.tied);
  EXPECT_EQ(s.max_positions, a.positions);
  EXPECT_EQ(s.bos, a.bos);
  EXPECT_EQ(s.eos.empty() ? -1 : s.eos[0], a.eos);
  EXPECT_EQ(s.activation, a.activation);
}

INSTANTIATE_TEST_SUITE_P(Families, Defaults, testing::ValuesIn(kAssumed), [](auto& one) { return one.param.family; });

TEST(Defaults, AreCheckedForEveryFamily) {
  for (const Family& f : families())
    EXPECT_TRUE(f.model_type == "deepseek_v3" ||
                std::ranges::any_of(kAssumed, [&](const Assumed& a) { return f.model_type == a.family; }))
        << f.model_type;
}

TEST(Defaults, OfBiases) {
  const BiasSpec none, attention{.qkv = true, .out = true}, all{.qkv = true, .out = true, .mlp = true};
  for (const char* family : {"qwen2", "qwen2_moe", "glm", "glm4", "seed_oss"})
    EXPECT_EQ(spec_of(family).bias, BiasSpec{.qkv = true}) << family;
  EXPECT_EQ(spec_of("gpt_oss").bias, attention);
  for (const char* family : {"gpt_neox", "starcoder2", "gpt2", "bloom"}) EXPECT_EQ(spec_of(family).bias, all) << family;
  for (const char* family :
       {"llama",      "mistral", "mixtral",    "qwen3",   "qwen3_moe", "gemma",  "gemma2",           "gemma3_text",
        "phi3",       "olmo2",   "olmo3",      "olmoe",   "exaone4",   "cohere", "cohere2",          "stablelm",
        "nemotron",   "smollm3", "arcee",      "apertus", "ernie4_5",  "helium", "hunyuan_v1_dense", "granite",
        "granitemoe", "falcon",  "deepseek_v3"})
    EXPECT_EQ(spec_of(family).bias, none) << family;
}

TEST(Defaults, OfWindows) {
  const std::int64_t w = 4096;
  for (const char* family : {"mistral", "ministral"}) EXPECT_THAT(spec_of(family).windows, Each(w)) << family;
  EXPECT_THAT(spec_of("gemma2").windows, ElementsAre(w, 0, w, 0, w, 0, w, 0));
  EXPECT_THAT(spec_of("gpt_oss").windows, ElementsAre(128, 0, 128, 0, 128, 0, 128, 0));
  EXPECT_THAT(spec_of("gemma3_text").windows, ElementsAre(w, w, w, w, w, 0, w, w));
  for (const char* family : {"cohere2", "olmo3", "exaone4"})
    EXPECT_THAT(spec_of(family).windows, ElementsAre(w, w, w, 0, w, w, w, 0)) << family;
  for (const char* family : {"cohere2", "exaone4", "smollm3"})
    EXPECT_THAT(spec_of(family).without_rope, ElementsAre(0, 0, 0, 1, 0, 0, 0, 1)) << family;
  for (const char* family : {"qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "mixtral", "phi3", "starcoder2", "smollm3"})
    EXPECT_TRUE(spec_of(family).windows.empty()) << family;
}

TEST(Defaults, OfExperts) {
  struct Experts {
    const char* family;
    std::int64_t experts, chosen, ffn;
    bool normalize;
    double balance;
  };
  for (const Experts& e : {Experts{"mixtral", 8, 2, 48, true, 0.001},
                           {"qwen2_moe", 60, 4, 1408, false, 0.001},
                           {"qwen3_moe", 128, 8, 768, false, 0.001},
                           {"olmoe", 64, 8, 48, false, 0.01},
                           {"granitemoe", 8, 2, 48, true, 0.001},
                           {"gpt_oss", 128, 4, 48, true, 0.001}}) {
    EXPECT_EQ(spec_of(e.family).moe.balance, 0) << e.family;
    const MoeSpec m = spec_of(e.family, R"({"output_router_logits": true})").moe;
    EXPECT_EQ(m.experts, e.experts) << e.family;
    EXPECT_EQ(m.chosen, e.chosen) << e.family;
    EXPECT_EQ(m.ffn, e.ffn) << e.family;
    EXPECT_EQ(m.normalize, e.normalize) << e.family;
    EXPECT_EQ(m.balance, e.balance) << e.family;
    EXPECT_TRUE(m.dense.empty()) << e.family;
  }
  EXPECT_EQ(spec_of("qwen2_moe").moe.shared_ffn, 5632);
}

TEST(Defaults, OfDeepseek) {
  const ModelSpec s = spec_of("deepseek_v3", R"({"num_attention_heads": 100})");  // which need not divide hidden_size
  EXPECT_EQ(s.latent, (LatentSpec{.q_rank = 1536, .kv_rank = 512, .nope = 128, .rope = 64, .value = 128}));
  const MoeSpec& m = s.moe;
  EXPECT_EQ(m.experts, 256);
  EXPECT_EQ(m.chosen, 8);
  EXPECT_EQ(m.ffn, 2048);
  EXPECT_EQ(m.shared_ffn, 2048);
  EXPECT_EQ(m.groups, 8);
  EXPECT_EQ(m.chosen_groups, 4);
  EXPECT_EQ(m.scale, 2.5);
  EXPECT_TRUE(m.normalize);
  EXPECT_THAT(m.dense, ElementsAre(1, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_EQ(s.norm.eps, 1e-6);
  EXPECT_EQ(s.max_positions, 4096);
  EXPECT_FALSE(s.tied);
}

TEST(Defaults, OfFactorsAndSwitches) {
  EXPECT_EQ(spec_of("cohere").logit_scale, 0.0625);
  EXPECT_FALSE(spec_of("cohere").qk_norm);
  EXPECT_EQ(spec_of("gemma2").scores.scale, 1 / 16.0);
  EXPECT_EQ(spec_of("gemma3_text").scores.scale, 1 / 16.0);
  EXPECT_EQ(spec_of("gemma3_text").final_softcap, 0);
  EXPECT_EQ(spec_of("gemma3_text").rope_local->theta, 1e4);
  EXPECT_EQ(spec_of("olmo3").rope_local->theta, 5e5);
  for (const char* family : {"granite", "granitemoe"}) {
    const ModelSpec s = spec_of(family);
    EXPECT_EQ(s.scores.scale, 1) << family;
    EXPECT_EQ(s.embedding_scale, 1) << family;
    EXPECT_EQ(s.residual.scale, 1) << family;
    EXPECT_EQ(s.logit_scale, 1) << family;
  }
  EXPECT_TRUE(spec_of("gpt_neox").residual.parallel);
  EXPECT_FALSE(spec_of("stablelm").residual.parallel);
  EXPECT_TRUE(spec_of("falcon").residual.parallel);
  EXPECT_EQ(spec_of("apertus").rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(spec_of("gpt_oss").rope.scaling, RopeScaling::yarn);
  EXPECT_FALSE(spec_of("gpt_oss").rope.truncate);
}

// ---- spellings

// Sliding and full layers in turns, for the eight layers here.
const std::string kTurns =
    R"("layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention"])";

TEST(Spellings, AMistralWithLayerTypesIsAMinistral) {
  const ModelSpec s = spec_of("mistral", R"({"sliding_window": 7, )" + kTurns + "}");
  EXPECT_THAT(s.windows, ElementsAre(7, 0, 7, 0, 7, 0, 7, 0));
  ModelSpec other = spec_of("ministral", R"({"sliding_window": 7, )" + kTurns + "}");
  other.model_type = "mistral";
  EXPECT_EQ(s, other);
  EXPECT_EQ(read_model_config(config_json(s, "float32"), "again"), s);
  EXPECT_FALSE(config_json(spec_of("mistral"), "float32").contains("layer_types"));
}

TEST(Spellings, SlidingLayersNeedAWindowInUse) {
  for (const char* family : {"qwen2", "qwen3", "qwen2_moe"}) {
    EXPECT_THAT(refusal([&] { spec_of(family, R"({"sliding_window": 7, )" + kTurns + "}"); }),
                HasSubstr("'layer_types' has sliding layers, but no 'sliding_window' is in use"))
        << family;
    EXPECT_THAT(spec_of(family, R"({"use_sliding_window": true, "sliding_window": 7, )" + kTurns + "}").windows,
                ElementsAre(7, 0, 7, 0, 7, 0, 7, 0))
        << family;
  }
}

TEST(Spellings, LettersOfExaoneLeaveTheLastLayerFull) {
  EXPECT_THAT(spec_of("exaone4", R"({"sliding_window": 7, "sliding_window_pattern": "LLG"})").windows,
              ElementsAre(7, 7, 0, 7, 7, 0, 7, 0));
}

TEST(Spellings, AHunyuanMayCountOneExpert) {
  EXPECT_EQ(spec_of("hunyuan_v1_dense", R"({"num_experts": 1})").moe.experts, 0);
  EXPECT_THAT(refusal([] { spec_of("hunyuan_v1_dense", R"({"num_experts": 8})"); }),
              HasSubstr("'num_experts' is 8, but a hunyuan_v1_dense has no experts"));
}

TEST(Spellings, ArchitecturesMayBeSpelledOtherwise) {
  EXPECT_EQ(spec_of("mpt", R"({"d_model": 5120, "architectures": ["MPTForCausalLM"]})").model_type, "mpt");
  EXPECT_EQ(spec_of("ernie4_5", R"({"architectures": ["Ernie4_5_ForCausalLM"]})").model_type, "ernie4_5");
  EXPECT_EQ(spec_of("llama", R"({"architectures": ["LLaMAForCausalLM"]})").model_type, "llama");
  EXPECT_THAT(refusal([] { spec_of("llama", R"({"architectures": ["LlamaModel"]})"); }), HasSubstr("'architectures'"));
}

TEST(Spellings, LayersOfTheirOwnAreRefused) {
  EXPECT_THAT(refusal([] { spec_of("llama", R"({"per_layer_config": {"1": {"intermediate_size": 24}}})"); }),
              HasSubstr("the layers of a model must be alike"));
  EXPECT_EQ(spec_of("llama", R"({"per_layer_config": {}})"), spec_of("llama"));
}

// ---- a text part

ModelSpec spec_of_whole(const std::string& text) { return read_model_config(parse_json(text, "whole"), "config.json"); }

TEST(TextConfig, MayLeaveOutAllSizes) {
  const ModelSpec s = spec_of_whole(R"({"model_type": "gemma3", "text_config": {}})");
  EXPECT_EQ(s.vocab, 262208);
  EXPECT_EQ(s.hidden, 2304);
  EXPECT_EQ(s.ffn, 9216);
  EXPECT_EQ(s.layers, 26);
  EXPECT_EQ(s.heads, 8);
}

TEST(TextConfig, HasTheTypeOfTheWhole) {
  const Json whole = parse_json(
      R"({"model_type": "gemma3", "torch_dtype": "float32",
      "text_config": {"hidden_size": 2560, "dtype": "bfloat16"}})",
      "whole");
  EXPECT_EQ(read_model_config(whole, "config.json").embedding_scale, std::sqrt(2560.0f));
  EXPECT_EQ(spec_of_whole(R"({"model_type": "gemma3", "dtype": null,
      "text_config": {"hidden_size": 2560, "dtype": "bfloat16"}})")
                .embedding_scale,
            to_float(to_bf16(std::sqrt(2560.0f))));
  const Json saved = rewrite_config(whole, {{"dtype", "bfloat16"}});
  EXPECT_EQ(saved["torch_dtype"], "bfloat16");
  EXPECT_EQ(saved["text_config"]["dtype"], "bfloat16");
  EXPECT_FALSE(saved.contains("dtype"));
  EXPECT_EQ(rewrite_config(whole, {{"dtype", "float16"}})["text_config"]["dtype"], "float16");
}

}  // namespace
}  // namespace dml
