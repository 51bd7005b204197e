#include "checkpoint/model_config.h"

#include <cmath>

#include "bad_cases.h"
#include "core/bf16.h"
#include "fixture.h"
#include "model/rope_tables.h"
#include "model/weight_names.h"

namespace dml {
namespace {
using namespace testing_tools;
using testing::ElementsAre;
using testing::HasSubstr;

Json base_config(const std::string& family = "llama") {
  Json j = parse_json(bad::kGoodModelConfig, "base");
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
  EXPECT_EQ(old_one.rope_local->theta, 1e4);
  EXPECT_EQ(old_one.rope_local->scaling, RopeScaling::none);
  EXPECT_THAT(old_one.windows, ElementsAre(16, 0, 16, 0));
}

TEST(ModelConfig, ClassifiersHaveAHeadOfTheirOwn) {
  const ModelSpec reward =
      read("llama", R"({"architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "LABEL_0"},
      "tie_word_embeddings": true, "pad_token_id": 0})");
  EXPECT_EQ(reward.head, HeadKind::sequence_classification);
  EXPECT_EQ(reward.labels, 1);
  EXPECT_FALSE(reward.tied);
  EXPECT_EQ(weight_names(reward).back().tensor, "score.weight");
  const ModelSpec steps = read("llama", R"({"architectures": ["LlamaForTokenClassification"], "pad_token_id": 0})");
  EXPECT_EQ(steps.head, HeadKind::token_classification);
  EXPECT_EQ(steps.labels, 2);
  EXPECT_EQ(weight_names(steps).back().tensor, "score.bias");
  for (const ModelSpec& spec : {reward, steps})
    EXPECT_EQ(read_model_config(config_json(spec, "float32"), "again"), spec);
  EXPECT_EQ(architecture_of(*find_family("gpt2"), HeadKind::sequence_classification), "GPT2ForSequenceClassification");
  EXPECT_THROW(read("llama", R"({"architectures": ["LlamaForQuestionAnswering"]})"), UserError);
}

TEST(ModelConfig, WindowsFollowTheFamily) {
  EXPECT_THAT(read("mistral", "{}").windows, ElementsAre(4096, 4096, 4096, 4096));
  EXPECT_TRUE(read("mistral", R"({"sliding_window": null})").windows.empty());
  EXPECT_TRUE(read("qwen2", R"({"sliding_window": 7})").windows.empty());
  EXPECT_THAT(read("qwen2", R"({"sliding_window": 7, "use_sliding_window": true, "max_window_layers": 3})").windows,
              ElementsAre(0, 0, 0, 7));
  EXPECT_THAT(read("gemma2", R"({"head_dim": 8, "sliding_window": 7})").windows, ElementsAre(7, 0, 7, 0));
  EXPECT_TRUE(read("phi3", "{}").windows.empty());
  const std::string types = R"("layer_types": ["full_attention", "sliding_attention", "full_attention",
      "full_attention"])";
  EXPECT_THAT(read("smollm3", R"({"sliding_window": 7, )" + types + "}").windows, ElementsAre(0, 7, 0, 0));
  EXPECT_TRUE(read("smollm3", R"({"sliding_window": 7})").windows.empty());
}

TEST(ModelConfig, AbsentAndNullSoftCapsDiffer) {
  EXPECT_EQ(read("gemma2", R"({"head_dim": 8})").scores.softcap, 50);
  EXPECT_EQ(read("gemma2", R"({"head_dim": 8, "attn_logit_softcapping": null})").scores.softcap, 0);
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

// head_dim 8: of 5 elements, transformers turns 3 pairs.
TEST(ModelConfig, LongropeHasAFactorForEveryPairOfAnOddRotaryDim) {
  auto phi3 = [](const std::string& factors) {
    return read("phi3", R"({"partial_rotary_factor": 0.7, "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096, "rope_scaling": {"type": "longrope", "long_factor": )" +
                            factors + R"(, "short_factor": [1, 1, 1]}})");
  };
  const ModelSpec s = phi3("[1, 2, 3]");
  EXPECT_EQ(s.rotary_dim(s.rope), 5);
  EXPECT_EQ(s.rotary_pairs(s.rope), 3);
  EXPECT_EQ(RopeTables(s, 16).length(), 16);
  EXPECT_THAT([&] { phi3("[1, 2]"); },
              testing::ThrowsMessage<UserError>(HasSubstr("longrope long_factor must have 3 numbers, has 2")));
}

// What transformers 5.17 makes of these keys.
TEST(ModelConfig, TheOriginalLengthBesideTheRopeTakesPrecedenceAndPhi3AlwaysHasOne) {
  const std::string longrope =
      R"("rope_parameters": {"rope_type": "longrope", "long_factor": [1, 2, 3, 4], "short_factor": [1, 1, 1, 1],)"
      R"("original_max_position_embeddings": 100, "factor": 3})";
  ModelSpec inside = read("llama", "{" + longrope + "}");
  EXPECT_EQ(inside.rope.original_positions, 100);
  EXPECT_EQ(inside.rope.factor, 3);
  EXPECT_EQ(read("llama", R"({"original_max_position_embeddings": 200, )" + longrope + "}").rope.original_positions,
            200);
  EXPECT_EQ(read("phi3", "{" + longrope + "}").rope.original_positions, 4096);
  ModelSpec llama3 = read("llama", R"({"max_position_embeddings": 500, "rope_parameters": {"rope_type": "llama3",
      "factor": 2, "low_freq_factor": 1, "high_freq_factor": 4}})");
  EXPECT_EQ(llama3.rope.original_positions, 500);
}

TEST(ModelConfig, MisspeltKeysAreNamed) {
  const Json given{{"rope_tetha", 5}, {"hidden_size", 64}, {"transformers_version", "5"}};
  Json j = base_config();
  j.update(given);
  EXPECT_EQ(
      misspelt_config_keys(j, given),
      std::vector<std::string>{"model_config: a model of type llama has no 'rope_tetha'; did you mean 'rope_theta'?"});
}

TEST(ModelConfig, AbsentKeyValueHeadsAreTheFamilysDefaultAndNullIsAsManyAsHeads) {
  auto heads = [](const std::string& family, const std::string& change) {
    Json j = base_config(family);
    j.erase("num_key_value_heads");
    j.update(parse_json(change, "change"));
    return read_model_config(j, "config.json").kv_heads;
  };
  EXPECT_EQ(heads("llama", "{}"), 4);
  EXPECT_EQ(heads("mistral", R"({"num_attention_heads": 16})"), 8);
  EXPECT_EQ(heads("mistral", R"({"num_key_value_heads": null})"), 4);
  EXPECT_EQ(heads("gemma2", R"({"head_dim": 8, "num_attention_heads": 8})"), 4);
}

TEST(ModelConfig, GemmaTakesItsActivationFromHiddenActAndTheOthersFromHiddenActivation) {
  const std::string both = R"({"head_dim": 8, "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"})";
  EXPECT_EQ(read("gemma", both).activation, kernels::Activation::gelu);
  EXPECT_EQ(read("gemma", R"({"head_dim": 8})").activation, kernels::Activation::gelu_tanh);
  EXPECT_EQ(read("gemma2", both).activation, kernels::Activation::gelu_tanh);
  EXPECT_EQ(read("gemma3_text", both).activation, kernels::Activation::gelu_tanh);
}

TEST(ModelConfig, GemmaThreeHasACapOnItsLogitsAndNoneOnItsScores) {
  ModelSpec s = read("gemma3_text", R"({"head_dim": 8, "attn_logit_softcapping": 50, "final_logit_softcapping": 30})");
  EXPECT_EQ(s.scores.softcap, 0);
  EXPECT_EQ(s.final_softcap, 30);
}

TEST(ModelConfig, GptTwoScalesItsScoresByItsSwitches) {
  const std::string sizes = R"("n_embd": 32, "n_layer": 2, "n_head": 4)";
  EXPECT_FLOAT_EQ(read("gpt2", "{" + sizes + "}").attention_scale(1), 1 / std::sqrt(8.0f));
  EXPECT_FLOAT_EQ(read("gpt2", "{" + sizes + R"(, "scale_attn_weights": false})").attention_scale(1), 1);
  EXPECT_FLOAT_EQ(read("gpt2", "{" + sizes + R"(, "scale_attn_by_inverse_layer_idx": true})").attention_scale(1),
                  1 / std::sqrt(8.0f) / 2);
  EXPECT_EQ(read("gpt2", R"({"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4})").layers, 3);
}

TEST(ModelConfig, IgnoredDropoutIsNamed) {
  auto dropout = [](const std::string& text) { return config_dropout(parse_json(text, "config")); };
  EXPECT_EQ(dropout(R"({"model_type": "llama", "attention_dropout": 0.0})"), "");
  EXPECT_EQ(dropout(R"({"model_type": "phi3", "attention_dropout": 0.25, "resid_pdrop": 0.1})"),
            "attention_dropout 0.25, resid_pdrop 0.1");
  EXPECT_EQ(dropout(R"({"model_type": "gpt2", "attn_pdrop": 0})"), "embd_pdrop 0.1, resid_pdrop 0.1");
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
  for (const char* family : {"ernie4_5", "seed_oss"}) {
    EXPECT_EQ(read(family, "{}").head_dim, 128);
    EXPECT_EQ(read(family, R"({"head_dim": null})").head_dim, 8);
  }
  EXPECT_EQ(read("cohere2", R"({"head_dim": 16})").head_dim, 16);
  EXPECT_EQ(read("bloom", R"({"hidden_size": null, "n_embed": 48, "n_layer": 2, "n_head": 4})").hidden, 48);
}

TEST(ModelConfig, BasesOfTheRopeThatNoKeyNames) {
  auto base = [](const std::string& family) {
    Json j = base_config(family);
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) j.erase(key);
    return read_model_config(j, "config.json").rope.theta;
  };
  for (auto [family, theta] : {std::pair{"llama", 1e4},
                               {"cohere", 5e5},
                               {"cohere2", 1e4},
                               {"ernie4_5", 5e5},
                               {"helium", 1e5},
                               {"mixtral", 1e6},
                               {"olmo2", 1e4},
                               {"olmo3", 5e5},
                               {"smollm3", 2e6},
                               {"apertus", 12e6},
                               {"gpt_oss", 15e4}})
    EXPECT_EQ(base(family), theta) << family;
  const ModelSpec nested = read("olmo3", R"({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2},
      "sliding_attention": {"rope_type": "default"}}})");
  EXPECT_EQ(nested.rope.factor, 2);
  EXPECT_EQ(nested.rope_local->scaling, RopeScaling::none);
}

TEST(ModelConfig, QueriesKeysAndValuesAreClippedWhereTheKeySaysSo) {
  EXPECT_EQ(read("olmoe", R"({"clip_qkv": 7.5})").scores.clip, 7.5);
  EXPECT_EQ(read("olmoe", R"({"clip_qkv": null})").scores.clip, 0);
  const std::string sizes = R"("d_model": 32, "n_layers": 2, "n_heads": 4, "attn_config": {"clip_qkv": 6})";
  const ModelSpec mpt = read("mpt", "{" + sizes + "}");
  EXPECT_EQ(mpt.scores.clip, 6);
  EXPECT_EQ(read_model_config(config_json(mpt, "float32"), "again"), mpt);
  EXPECT_THAT(refusal([] { read("llama", R"({"clip_qkv": 6})"); }), HasSubstr("'clip_qkv' is 6"));
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

TEST(ModelConfig, OfExpertsNeedsTheirNumberForAToken) {
  Json config = base_config();
  config.update({{"model_type", "olmoe"}, {"num_experts", 4}, {"num_experts_per_tok", nullptr}});
  EXPECT_THAT(refusal([&] { read_model_config(config, "config.json"); }),
              HasSubstr("config.json: 'num_experts_per_tok' is null, expected 1 to the number of experts, 4"));
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
  original = parse_json(R"({"torch_dtype": "float16", "rope_parameters": {}})", "x");
  EXPECT_EQ(dump(rewrite_config(original, {{"dtype", "bfloat16"}})),
            R"({"torch_dtype":"bfloat16","rope_parameters":{}})");
  original = parse_json(R"({"torch_dtype": "float16", "dtype": "float32"})", "x");
  EXPECT_EQ(dump(rewrite_config(original, {{"dtype", "bfloat16"}})), R"({"dtype":"bfloat16"})");
  original = parse_json(R"({"rope_parameters": {}})", "x");
  EXPECT_EQ(dump(rewrite_config(original, {{"dtype", "bfloat16"}})), R"({"rope_parameters":{},"dtype":"bfloat16"})");
}

TEST(RewriteConfig, ChangesTheRopeInTheConfigsOwnDialect) {
  auto rope = [](const std::string& original, const std::string& change) {
    Json config = base_config();
    config.update(parse_json(original, "original"));
    return read_model_config(rewrite_config(config, parse_json(change, "change")), "config.json").rope;
  };
  const std::string linear = R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0}})";
  for (const char* original :
       {R"({"rope_theta": 5e5})", R"({"rope_theta": 5e5, "rope_scaling": {"type": "dynamic", "factor": 3}})",
        R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}})",
        R"({"rope_parameters": {"rope_type": "dynamic", "factor": 3, "rope_theta": 5e5}})"}) {
    RopeSpec scaled = rope(original, linear);
    EXPECT_EQ(scaled.scaling, RopeScaling::linear) << original;
    EXPECT_EQ(scaled.factor, 2) << original;
    EXPECT_EQ(scaled.theta, 5e5) << original;
    EXPECT_EQ(rope(original, R"({"rope_theta": 7e5})").theta, 7e5) << original;
    EXPECT_EQ(rope(original, R"({"rope_scaling": null})").scaling, RopeScaling::none) << original;
    EXPECT_EQ(rope(original, R"({"rope_parameters": {"rope_theta": 9e5}})").theta, 9e5) << original;
    EXPECT_EQ(rope(original, R"({"rope_parameters": {"rope_theta": 9e5}})").scaling, RopeScaling::none) << original;
  }
  Json nested =
      rewrite_config(parse_json(R"({"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention":
      {"rope_theta": 1e4}}})",
                                "nested"),
                     parse_json(linear, "change"));
  EXPECT_EQ(nested["rope_parameters"]["full_attention"]["factor"], 2);
  EXPECT_EQ(nested["rope_parameters"]["full_attention"]["rope_theta"], 1e6);
  EXPECT_FALSE(nested.contains("rope_scaling"));
}

TEST(RewriteConfig, ChangesTheRopeOfSlidingLayersInTheConfigsOwnDialect) {
  auto rewritten = [](const char* model_type, const char* change) {
    const Json config{{"model_type", model_type},
                      {"rope_parameters",
                       {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
                        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}};
    Json ropes = rewrite_config(config, parse_json(change, "change"))["rope_parameters"];
    return std::pair(ropes["full_attention"]["rope_theta"].get<double>(),
                     ropes["sliding_attention"]["rope_theta"].get<double>());
  };
  EXPECT_EQ(rewritten("gemma3_text", R"({"rope_local_base_freq": 100})"), std::pair(1e6, 100.0));
  EXPECT_EQ(rewritten("gemma3_text", R"({"rope_theta": 7e5})"), std::pair(7e5, 1e4));
  EXPECT_EQ(rewritten("olmo3", R"({"rope_theta": 7e5})"), std::pair(7e5, 7e5)) << "its only key of a base";
}

TEST(RewriteConfig, WindowsAreThoseOfTheChangeWhateverTheListOfLayersSays) {
  const Json all_full{
      {"use_sliding_window", false},
      {"sliding_window", nullptr},
      {"max_window_layers", 28},
      {"layer_types", Json::array({"full_attention", "full_attention", "full_attention", "full_attention"})}};
  auto windows = [&](const char* change) {
    Json config = base_config();
    config.update(all_full);
    config["model_type"] = "qwen3";
    config["head_dim"] = 2;
    return read_model_config(rewrite_config(config, parse_json(change, "change")), "config.json").windows;
  };
  EXPECT_EQ(windows(R"({"use_sliding_window": true, "sliding_window": 3, "max_window_layers": 2})"),
            (std::vector<std::int64_t>{0, 0, 3, 3}));
  EXPECT_EQ(windows(R"({"use_sliding_window": true, "sliding_window": 3, "layer_types": ["sliding_attention",
      "full_attention", "full_attention", "full_attention"]})"),
            (std::vector<std::int64_t>{3, 0, 0, 0}));
  EXPECT_TRUE(windows(R"({"sliding_window": 3})").empty()) << "not in use";
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

class BadModelConfig : public testing::TestWithParam<bad::Case> {};
TEST_P(BadModelConfig, IsRejectedWithAReason) {
  std::string text = refusal([&] { read(GetParam().family, GetParam().change); });
  EXPECT_THAT(text, HasSubstr(GetParam().message));
  EXPECT_TRUE(text.starts_with("config.json: ")) << text;
}

INSTANTIATE_TEST_SUITE_P(Table, BadModelConfig, testing::ValuesIn(bad::kModelConfigs),
                         [](auto& one) { return one.param.name; });

TEST(BadModelConfig, AHugeEosListIsRefused) {
  Json j = base_config();
  j["eos_token_id"] = std::vector<int>(10'000, 2);
  EXPECT_THAT(refusal([&] { read_model_config(j, "c"); }), HasSubstr("lists 10000 ids"));
}

TEST(BadModelConfig, ANullQuantizationMethodIsAnAbsentOne) {
  Json j = base_config("gpt_oss");
  j["quantization_config"] = {{"quant_method", nullptr}};
  EXPECT_THAT(refusal([&] { read_model_config(j, "c"); }), HasSubstr("c: 'quantization_config': quantized to 8 bits"));
}

TEST(BadModelConfig, AllContradictionsAreReportedAtOnce) {
  std::string text =
      refusal([] { read("llama", R"({"num_key_value_heads": 3, "rms_norm_eps": 0, "rope_theta": 0})"); });
  EXPECT_THAT(text, testing::AllOf(HasSubstr("shared out"), HasSubstr("epsilon"), HasSubstr("theta")));
}

TEST(BadModelConfig, FilesThatAreNotConfigsAreRejected) {
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
