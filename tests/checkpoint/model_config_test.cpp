#include "checkpoint/model_config.h"

#include <cmath>

#include "core/bf16.h"
#include "fixture.h"

namespace dml {
namespace {
using namespace testing_tools;
using testing::ElementsAre;
using testing::HasSubstr;

Json base_config(const std::string& family = "llama") {
  Json j = parse_json(R"({"vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
                          "num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": 2})",
                      "base");
  j["model_type"] = family;
  return j;
}

ModelSpec read(const std::string& family, const std::string& change) {
  Json j = base_config(family);
  j.update(parse_json(change, "change"));
  return read_model_config(j, "config.json");
}

// ---- what keys mean

TEST(ModelConfig, BothDialectsGiveTheSameSpec) {
  ModelSpec old_one =
      read("llama", R"({"torch_dtype": "bfloat16", "rope_theta": 5e5, "max_position_embeddings": 4096, "rope_scaling":
      {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1024}})");
  ModelSpec new_one = read("llama", R"({"dtype": "bfloat16", "max_position_embeddings": 4096, "rope_parameters":
      {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1024}})");
  EXPECT_EQ(old_one, new_one);
  EXPECT_EQ(old_one.rope.theta, 5e5);
  EXPECT_EQ(old_one.rope.scaling, RopeScaling::llama3);
}

TEST(ModelConfig, GemmaThreeHasTwoRopesInBothDialects) {
  ModelSpec old_one = read(
      "gemma3_text",
      R"({"head_dim": 8, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window": 16, "sliding_window_pattern": 2,
      "rope_scaling": {"rope_type": "linear", "factor": 8}})");
  ModelSpec new_one = read("gemma3_text", R"({"head_dim": 8, "sliding_window": 16,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
      "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})");
  EXPECT_EQ(old_one, new_one);
  EXPECT_EQ(old_one.rope_local.theta, 1e4);
  EXPECT_EQ(old_one.rope_local.scaling, RopeScaling::none);
  EXPECT_THAT(old_one.windows, ElementsAre(16, 0, 16, 0));
}

TEST(ModelConfig, WindowsFollowTheFamily) {
  EXPECT_THAT(read("mistral", "{}").windows, ElementsAre(4096, 4096, 4096, 4096));
  EXPECT_TRUE(read("mistral", R"({"sliding_window": null})").windows.empty());
  EXPECT_TRUE(read("qwen2", R"({"sliding_window": 7})").windows.empty());
  EXPECT_THAT(read("qwen2", R"({"sliding_window": 7, "use_sliding_window": true, "max_window_layers": 3})").windows,
              ElementsAre(0, 0, 0, 7));
  EXPECT_THAT(read("gemma2", R"({"head_dim": 8, "sliding_window": 7})").windows, ElementsAre(7, 0, 7, 0));
  EXPECT_TRUE(read("phi3", "{}").windows.empty());
}

TEST(ModelConfig, AbsentAndNullSoftCapsDiffer) {
  EXPECT_EQ(read("gemma2", R"({"head_dim": 8})").attention_softcap, 50);
  EXPECT_EQ(read("gemma2", R"({"head_dim": 8, "attn_logit_softcapping": null})").attention_softcap, 0);
  EXPECT_EQ(read("gemma2", R"({"head_dim": 8, "final_logit_softcapping": 12})").final_softcap, 12);
}

TEST(ModelConfig, GemmaScalesEmbeddingsByARoundedRoot) {
  EXPECT_EQ(read("gemma", R"({"head_dim": 8, "torch_dtype": "bfloat16"})").embedding_scale,
            to_float(to_bf16(std::sqrt(32.0f))));
  EXPECT_EQ(read("gemma", R"({"head_dim": 8, "dtype": "float32"})").embedding_scale, std::sqrt(32.0f));
}

TEST(ModelConfig, LongropeTakesItsFactorFromTheTwoLengths) {
  ModelSpec s = read("phi3", R"({"max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
      "rope_scaling": {"type": "su", "long_factor": [1, 2, 3, 4], "short_factor": [1, 1, 1, 1]}})");
  EXPECT_EQ(s.rope.scaling, RopeScaling::longrope);
  EXPECT_EQ(s.rope.factor, 32);
  EXPECT_EQ(s.rope.original_positions, 4096);
}

TEST(ModelConfig, YarnScalesAttentionByBothMscales) {
  ModelSpec s =
      read("llama", R"({"rope_scaling": {"rope_type": "yarn", "factor": 40, "mscale": 0.5, "mscale_all_dim": 1.0}})");
  EXPECT_DOUBLE_EQ(s.rope.attention_factor, (0.05 * std::log(40.0) + 1) / (0.1 * std::log(40.0) + 1));
  EXPECT_EQ(read("llama", R"({"rope_scaling": {"rope_type": "yarn", "factor": 40}})").rope.attention_factor, 0);
}

TEST(ModelConfig, NullAndAbsentSizesFallBack) {
  ModelSpec s =
      read("llama", R"({"head_dim": null, "num_key_value_heads": null, "bos_token_id": null, "pad_token_id": 100})");
  EXPECT_EQ(s.head_dim, 8);
  EXPECT_EQ(s.kv_heads, 4);
  EXPECT_EQ(s.bos, -1);
  EXPECT_EQ(s.pad, -1);
  EXPECT_EQ(read("qwen3", "{}").head_dim, 128);
}

TEST(ModelConfig, EosOfTheGenerationConfigIsAdded) {
  TempDir dir;
  put(dir / "config.json", dump(base_config()));
  EXPECT_THAT(read_model_spec(dir.path()).eos, ElementsAre(2));
  put(dir / "generation_config.json", R"({"eos_token_id": [7, 2], "temperature": 0.6})");
  EXPECT_THAT(read_model_spec(dir.path()).eos, ElementsAre(2, 7));
  put(dir / "generation_config.json", R"({"eos_token_id": 100})");
  EXPECT_THAT(refusal([&] { read_model_spec(dir.path()); }), HasSubstr("generation_config.json: eos id 100"));
}

TEST(ModelConfig, PythonCodeIsNamedAndNotRun) {
  EXPECT_EQ(read("llama", R"({"auto_map": {"AutoModel": "x.py"}})").layers, 4);
}

TEST(RewriteConfig, KeepsUnknownKeysOrderAndDialect) {
  Json original = parse_json(R"({"zeta": 1, "torch_dtype": "float32", "my_key": {"a": [1]}, "vocab_size": 5})", "x");
  EXPECT_EQ(dump(rewrite_config(original, {{"dtype", "bfloat16"}, {"vocab_size", 6}})),
            R"({"zeta":1,"torch_dtype":"bfloat16","my_key":{"a":[1]},"vocab_size":6})");
  original = parse_json(R"({"dtype": "float32"})", "x");
  EXPECT_EQ(dump(rewrite_config(original, {{"dtype", "bfloat16"}})), R"({"dtype":"bfloat16"})");
  original = parse_json(R"({"rope_parameters": {}})", "x");
  EXPECT_EQ(dump(rewrite_config(original, {{"dtype", "bfloat16"}})), R"({"rope_parameters":{},"dtype":"bfloat16"})");
}

TEST(ConfigJson, OfEveryFamilyReadsBack) {
  for (auto& f : families()) {
    Json j = base_config(f.model_type);
    j["head_dim"] = 8;
    if (f.model_type == "gpt2") j.update({{"n_embd", 32}, {"n_layer", 2}, {"n_head", 4}});
    ModelSpec spec = read_model_config(j, f.model_type);
    EXPECT_EQ(read_model_config(config_json(spec, "float32"), "again"), spec)
        << f.model_type << pretty_json(config_json(spec, "float32"));
  }
}

// ---- what is refused

struct BadConfig {
  const char *name, *family, *change, *message;
};
void PrintTo(const BadConfig& bad, std::ostream* out) { *out << bad.name; }

class BadModelConfig : public testing::TestWithParam<BadConfig> {};
TEST_P(BadModelConfig, IsRefusedWithItsReason) {
  std::string text = refusal([&] { read(GetParam().family, GetParam().change); });
  EXPECT_THAT(text, HasSubstr(GetParam().message));
  EXPECT_TRUE(text.starts_with("config.json: ")) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadModelConfig,
    testing::Values(
        BadConfig{"HiddenZero", "llama", R"({"hidden_size": 0})", "hidden size must be 1 to"},
        BadConfig{"HiddenNegative", "llama", R"({"hidden_size": -1})", "hidden size must be 1 to"},
        BadConfig{"HiddenFraction", "llama", R"({"hidden_size": 1.5})", "'hidden_size' must be a whole number"},
        BadConfig{"HiddenText", "llama", R"({"hidden_size": "64"})", "'hidden_size' must be a whole number"},
        BadConfig{"HiddenHuge", "llama", R"({"hidden_size": 4611686018427387904})", "hidden size must be 1 to"},
        BadConfig{"HiddenMissing", "llama", R"({"hidden_size": null})", "no 'hidden_size'"},
        BadConfig{"HeadsZero", "llama", R"({"num_attention_heads": 0})", "attention heads must be 1 to"},
        BadConfig{"HeadsDoNotDivide", "llama", R"({"num_attention_heads": 5})", "not divisible by 5"},
        BadConfig{"MoreKvHeadsThanHeads", "llama", R"({"num_key_value_heads": 8})", "cannot be shared out"},
        BadConfig{"KvHeadsDoNotDivide", "llama", R"({"num_key_value_heads": 3})", "cannot be shared out"},
        BadConfig{"KvHeadsZero", "llama", R"({"num_key_value_heads": 0})", "key/value heads must be 1 to"},
        BadConfig{"HeadDimOdd", "llama", R"({"head_dim": 7})", "no even number"},
        BadConfig{"HeadDimZero", "llama", R"({"head_dim": 0})", "head_dim must be 1 to"},
        BadConfig{"HeadDimHuge", "llama", R"({"head_dim": 1000000})", "head_dim must be 1 to"},
        BadConfig{"LayersZero", "llama", R"({"num_hidden_layers": 0})", "number of layers must be 1 to"},
        BadConfig{"LayersBillion", "llama", R"({"num_hidden_layers": 1000000000})", "'num_hidden_layers' must be 1 to"},
        BadConfig{"LayersBillionGpt2", "gpt2", R"({"n_embd": 32, "n_head": 4, "n_layer": 1000000000})",
                  "number of layers must be 1 to"},
        BadConfig{"IntermediateZero", "llama", R"({"intermediate_size": 0})", "intermediate size must be 1 to"},
        BadConfig{"VocabZero", "llama", R"({"vocab_size": 0})", "vocabulary size must be 1 to"},
        BadConfig{"EpsZero", "llama", R"({"rms_norm_eps": 0})", "epsilon must be above 0"},
        BadConfig{"EpsNegative", "llama", R"({"rms_norm_eps": -1e-6})", "epsilon must be above 0"},
        BadConfig{"EpsText", "llama", R"({"rms_norm_eps": "NaN"})", "'rms_norm_eps' must be a number"},
        BadConfig{"EpsOne", "llama", R"({"rms_norm_eps": 1})", "epsilon must be above 0"},
        BadConfig{"ThetaZero", "llama", R"({"rope_theta": 0})", "rope theta must be above 1"},
        BadConfig{"ThetaNegative", "llama", R"({"rope_theta": -10000})", "rope theta must be above 1"},
        BadConfig{"RopeUnknown", "llama", R"({"rope_scaling": {"rope_type": "yarm", "factor": 2}})",
                  "unknown rope type 'yarm'; did you mean 'yarn'?"},
        BadConfig{"RopeUnknownKey", "llama",
                  R"({"rope_scaling": {"rope_type": "linear", "factor": 2, "mrope_section": [1]}})", "'mrope_section'"},
        BadConfig{"RopeNoFactor", "llama", R"({"rope_scaling": {"rope_type": "linear"}})", "needs 'factor'"},
        BadConfig{"RopeFactorZero", "llama", R"({"rope_scaling": {"rope_type": "linear", "factor": 0}})",
                  "factor must be at least 1"},
        BadConfig{"RopeFactorNegative", "llama", R"({"rope_scaling": {"rope_type": "dynamic", "factor": -1}})",
                  "factor must be at least 1"},
        BadConfig{"RopeList", "llama", R"({"rope_scaling": [1]})", "'rope_scaling' must be an object"},
        BadConfig{"YarnBetas", "llama",
                  R"({"rope_scaling": {"rope_type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 32}})",
                  "beta_slow < beta_fast"},
        BadConfig{
            "Llama3Frequencies", "llama",
            R"({"rope_scaling": {"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 8}})",
            "low_freq_factor < high_freq_factor"},
        BadConfig{
            "Llama3NoOriginal", "llama",
            R"({"rope_scaling": {"rope_type": "llama3", "factor": 2, "low_freq_factor": 1, "high_freq_factor": 4}})",
            "needs 'original_max_position_embeddings'"},
        BadConfig{"LongropeLength", "phi3",
                  R"({"rope_scaling": {"type": "longrope", "long_factor": [1], "short_factor": [1, 1, 1, 1]}})",
                  "long_factor must have 4 numbers, has 1"},
        BadConfig{"LongropeText", "phi3",
                  R"({"rope_scaling": {"type": "longrope", "long_factor": "x", "short_factor": [1]}})",
                  "'long_factor' must be a list of numbers"},
        BadConfig{"PartialZero", "stablelm", R"({"partial_rotary_factor": 0})", "in (0, 1]"},
        BadConfig{"WindowZero", "mistral", R"({"sliding_window": 0})", "'sliding_window' must be null or above 0"},
        BadConfig{"WindowNegative", "mistral", R"({"sliding_window": -1})", "'sliding_window' must be null or above 0"},
        BadConfig{"LayerTypesLength", "gemma2", R"({"head_dim": 8, "layer_types": ["full_attention"]})",
                  "must list 4 layers, lists 1"},
        BadConfig{"LayerTypesWord", "gemma2", R"({"head_dim": 8, "layer_types": ["full_attention", "x", "x", "x"]})",
                  "choose from"},
        BadConfig{"EosOutside", "llama", R"({"eos_token_id": 100})", "eos id 100 is outside"},
        BadConfig{"EosListBad", "llama", R"({"eos_token_id": [2, -5]})", "must be a token id"},
        BadConfig{"EosText", "llama", R"({"eos_token_id": "</s>"})", "must be a token id"},
        BadConfig{"PositionsZero", "llama", R"({"max_position_embeddings": 0})", "number of positions must be 1 to"},
        BadConfig{"PositionsHuge", "llama", R"({"max_position_embeddings": 1099511627776})",
                  "number of positions must be 1 to"},
        BadConfig{"UnknownFamily", "lama", "{}", "model_type 'lama' is not supported; did you mean 'llama'?"},
        BadConfig{"NoFamily", "", "{}", "no 'model_type'"},
        BadConfig{"OtherArchitecture", "llama", R"({"architectures": ["MistralForCausalLM"]})",
                  "expected [\"LlamaForCausalLM\"]"},
        BadConfig{"Quantised", "llama", R"({"quantization_config": {"quant_method": "gptq"}})",
                  "'quantization_config'"},
        BadConfig{"Experts", "llama", R"({"num_local_experts": 8})", "mixtures of experts"},
        BadConfig{"LogitScale", "llama", R"({"logit_scale": 0.0625})", "'logit_scale' is 0.0625"},
        BadConfig{"HeadNorms", "stablelm", R"({"qk_layernorm": true})", "'qk_layernorm'"},
        BadConfig{"UnknownActivation", "llama", R"({"hidden_act": "mish"})", "'hidden_act' is 'mish'"},
        BadConfig{"QueryScalarZero", "gemma2", R"({"head_dim": 8, "query_pre_attn_scalar": 0})", "must be above 0"},
        BadConfig{"TiedText", "llama", R"({"tie_word_embeddings": "yes"})", "true or false"}),
    [](auto& one) { return one.param.name; });

TEST(BadModelConfig, AHugeEosListIsRefused) {
  Json j = base_config();
  j["eos_token_id"] = std::vector<int>(10'000, 2);
  EXPECT_THAT(refusal([&] { read_model_config(j, "c"); }), HasSubstr("lists 10000 ids"));
}

TEST(BadModelConfig, AllContradictionsComeAtOnce) {
  std::string text =
      refusal([] { read("llama", R"({"num_key_value_heads": 3, "rms_norm_eps": 0, "rope_theta": 0})"); });
  EXPECT_THAT(text, testing::AllOf(HasSubstr("shared out"), HasSubstr("epsilon"), HasSubstr("theta")));
}

TEST(BadModelConfig, FilesThatAreNoConfigAreRefused) {
  TempDir dir;
  EXPECT_THAT(refusal([&] { read_model_spec(dir.path()); }), HasSubstr("no config.json"));
  std::string deep = std::string(1000, '[') + std::string(1000, ']');
  for (const std::string& bytes : {std::string(), std::string("{"), std::string("[]"), std::string("null"),
                                   std::string("{\"model_type\": \"\xff\"}"), std::string(R"({"a": 1, "a": 2})"),
                                   "{\"a\": " + deep + "}", std::string(10 << 20, ' ')}) {
    put(dir / "config.json", bytes);
    EXPECT_THAT(refusal([&] { read_model_spec(dir.path()); }), HasSubstr("config.json")) << bytes.substr(0, 40);
  }
}

}  // namespace
}  // namespace dml
