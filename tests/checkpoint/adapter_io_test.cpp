#include "checkpoint/adapter_io.h"

#include <cmath>

#include "bad_cases.h"
#include "checkpoint/mlx_adapter.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "fixture.h"

namespace dml {
namespace {
using namespace testing_tools;
using testing::HasSubstr;

const std::string kGolden = DML_SOURCE_DIR "/tests/golden/";
const std::string kShared = DML_SOURCE_DIR "/../shared/data/";

ModelSpec tiny_spec() { return read_model_spec(kGolden + "llama_tiny/model"); }

AdapterConfig config_of(const std::string& json) { return read_adapter_config(parse_json(json, "config"), "config"); }

AdaptableModule linear(const std::string& name) { return {name, 4, 4, false, name == "lm_head"}; }

TEST(AdapterPlan, NamesMisspeltTargetsButNotThoseOfOtherFamilies) {
  const AdapterConfig config{
      .target_modules = {"q_porj", "v_proj", "query_key_value", "up_poj", "gate_proj", "x.o_proj"}};
  EXPECT_THAT(misspelt_targets(config, tiny_spec()),
              testing::ElementsAre("target module 'q_porj' matches no module; did you mean 'q_proj'?",
                                   "target module 'up_poj' matches no module; did you mean 'up_proj'?",
                                   "target module 'x.o_proj' matches no module; did you mean 'o_proj'?"));
}

TEST(AdapterPlan, NamesPatternsThatMatchNoAdaptedModule) {
  const AdapterConfig config{.target_modules = {"q_proj"},
                             .rank_pattern = {{"q_prj", 2}, {"layers.0.*q_proj", 2}},
                             .alpha_pattern = {{"k_proj", 4}}};
  EXPECT_THAT(idle_patterns(config, tiny_spec()),
              testing::ElementsAre("lora_rank_pattern or lora_alpha_pattern: 'q_prj' matches no adapted module",
                                   "lora_rank_pattern or lora_alpha_pattern: 'k_proj' matches no adapted module"));
}

TEST(AdapterPlan, BlamesTheChoiceOfLayersWhereItLeavesNothing) {
  AdapterConfig config{.target_modules = {"q_proj"}, .layers_to_transform = std::vector<std::int64_t>{1}};
  config.layers_pattern = {"h"};
  const auto refusal = [&]() -> Problem {
    try {
      plan_adapter(config, tiny_spec(), "x");
    } catch (const UserError& e) {
      return e.problems().front();
    }
    return {};
  };
  EXPECT_EQ(refusal().key, "layers_pattern");
  config.layers_pattern.clear();
  config.target_modules = {"embed_tokens"};
  EXPECT_EQ(refusal().key, "layers_to_transform");
  config.target_modules = {"q_prj"};
  EXPECT_EQ(refusal().key, "target_modules");
}

// ---- PEFT's matching

TEST(AdapterRules, TargetsMatchWholeDottedParts) {
  AdapterConfig c{.target_modules = {"q_proj", "mlp.up_proj"}};
  AdapterRules rules(c, "x");
  EXPECT_TRUE(rules.targets(linear("model.layers.0.self_attn.q_proj")));
  EXPECT_TRUE(rules.targets(linear("model.layers.3.mlp.up_proj")));
  EXPECT_FALSE(rules.targets(linear("model.layers.3.mlp.xup_proj")));
  EXPECT_FALSE(rules.targets(linear("model.layers.0.self_attn.other_q_proj")));
  EXPECT_FALSE(rules.targets(linear("lm_head")));
}

TEST(AdapterRules, PatternsMatchTheWholeName) {
  AdapterConfig c{.target_pattern = R"(.*\.(1|2)\..*(q|v)_proj)"};
  AdapterRules rules(c, "x");
  EXPECT_TRUE(rules.targets(linear("model.layers.1.self_attn.q_proj")));
  EXPECT_FALSE(rules.targets(linear("model.layers.3.self_attn.q_proj")));
  EXPECT_FALSE(rules.targets(linear("model.layers.1.self_attn.q_proj.more")));
}

TEST(AdapterRules, LayersToTransformChoosesLayersOfSuffixTargetsOnly) {
  AdapterConfig c{.target_modules = {"q_proj", "model.layers.0.mlp.up_proj"},
                  .layers_to_transform = std::vector<std::int64_t>{1}};
  AdapterRules rules(c, "x");
  EXPECT_FALSE(rules.targets(linear("model.layers.0.self_attn.q_proj")));
  EXPECT_TRUE(rules.targets(linear("model.layers.1.self_attn.q_proj")));
  EXPECT_TRUE(rules.targets(linear("model.layers.0.mlp.up_proj")));  // named in full
  EXPECT_FALSE(rules.targets(linear("q_proj.x")));
}

TEST(AdapterRules, ExcludedAndSavedModulesGetNoAdapter) {
  AdapterConfig c{.all_linear = true, .exclude_modules = {"k_proj"}, .modules_to_save = {"down_proj"}};
  AdapterRules rules(c, "x");
  EXPECT_TRUE(rules.targets(linear("model.layers.0.self_attn.q_proj")));
  EXPECT_FALSE(rules.targets(linear("model.layers.0.self_attn.k_proj")));
  EXPECT_FALSE(rules.targets(linear("model.layers.0.mlp.down_proj")));
  EXPECT_FALSE(rules.targets(linear("lm_head")));
  EXPECT_FALSE(rules.targets({"model.embed_tokens", 4, 4, true, false}));
}

TEST(AdapterRules, FirstPatternOfRankAndAlphaWins) {
  AdapterConfig c{.r = 8,
                  .alpha = 16,
                  .target_modules = {"q_proj"},
                  .rank_pattern = {{"layers.1.self_attn.q_proj", 4}, {"q_proj", 2}},
                  .alpha_pattern = {{R"(layers\.\d\..*v_proj)", 32.0}}};
  AdapterRules rules(c, "x");
  EXPECT_EQ(rules.rank_for("model.layers.1.self_attn.q_proj"), 4);
  EXPECT_EQ(rules.rank_for("model.layers.2.self_attn.q_proj"), 2);
  EXPECT_EQ(rules.rank_for("model.layers.2.self_attn.v_proj"), 8);
  EXPECT_EQ(rules.alpha_for("model.layers.2.self_attn.v_proj"), 32);
  EXPECT_EQ(rules.scale_for("model.layers.1.self_attn.q_proj"), 4);
  c.use_rslora = true;
  EXPECT_DOUBLE_EQ(AdapterRules(c, "x").scale_for("model.layers.1.self_attn.k_proj"), 16 / std::sqrt(8.0));
}

TEST(AdapterRules, ACatastrophicPatternIsRejectedInsteadOfHanging) {
  AdapterConfig c{.target_pattern = "(([a-z._0-9]+)+)+[A-Z]"};
  AdapterRules rules(c, "x");
  EXPECT_THAT(
      refusal([&] { rules.targets(linear("model.layers.0.self_attn.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")); }),
      HasSubstr("too many steps"));
}

// ---- folders

class GoldenAdapter : public testing::TestWithParam<std::string> {};

TEST_P(GoldenAdapter, MatchesItsModelAndSurvivesWriting) {
  ModelSpec spec = read_model_spec(kGolden + GetParam() + "/model");
  Adapter adapter = read_adapter(kGolden + GetParam() + "/lora", spec);
  TempDir dir;
  write_adapter(dir.path(), adapter.config, adapter.tensors,
                [&](const AdapterTensor& t) { return std::span<const float>(adapter.values.at(t.key)); });
  Adapter again = read_adapter(dir.path(), spec);
  EXPECT_EQ(again.config, adapter.config);
  EXPECT_EQ(again.values, adapter.values);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenAdapter,
                         testing::Values("gemma", "gemma2", "gemma3", "gpt2", "llama_bias", "llama_tiny", "mistral",
                                         "olmo2", "phi3", "qwen2", "qwen3", "stablelm", "stablelm_parallel"),
                         [](auto& one) { return one.param; });

TEST(AdapterFolder, ARealOneIsRewrittenByteForByte) {
  std::string directory = kShared + "references/lora/init";
  if (!fs::exists(directory)) GTEST_SKIP() << "no ../shared/data";
  Adapter adapter = read_adapter(directory, read_model_spec(kShared + "models/stories260K"));
  EXPECT_EQ(adapter.config.r, 8);
  EXPECT_EQ(adapter.plan.modules.size(), 10u);
  EXPECT_EQ(adapter.plan.modules[0].scale, 2);
  TempDir dir;
  write_adapter(dir.path(), adapter.config, adapter.tensors,
                [&](const AdapterTensor& t) { return std::span<const float>(adapter.values.at(t.key)); });
  EXPECT_EQ(get(dir / "adapter_model.safetensors"), get(directory + "/adapter_model.safetensors"));
}

// Every key of a real file is written again, with the same type and, but for inference_mode, the same value.
TEST(AdapterConfigFile, RealOnesKeepKeysTypesAndValues) {
  if (!fs::exists(kShared + "peft-configs")) GTEST_SKIP() << "no ../shared/data";
  std::vector<std::string> paths = {kShared + "references/lora/init/adapter_config.json"};
  for (auto& e : fs::directory_iterator(kShared + "peft-configs")) paths.push_back(e.path().string());
  for (auto& path : paths) {
    Json original = read_json(path),
         written = parse_json(adapter_config_text(read_adapter_config(original, path)), "written");
    for (auto& [key, value] : original.items()) {
      ASSERT_TRUE(written.contains(key)) << path << " " << key;
      if (key == "inference_mode") continue;
      EXPECT_EQ(dump(value), dump(written[key])) << path << " " << key;
    }
  }
}

TEST(AdapterConfigFile, HasPeftsLayout) {
  AdapterConfig c{.r = 16, .alpha = 32, .dropout = 0.05, .target_modules = {"q_proj", "v_proj"}, .base_model = "a/b"};
  std::string text = adapter_config_text(c);
  EXPECT_TRUE(
      text.starts_with("{\n  \"alora_invocation_tokens\": null,\n  \"alpha_pattern\": {},\n  \"arrow_config\": null,\n "
                       " \"auto_mapping\": null,\n"
                       "  \"base_model_name_or_path\": \"a/b\",\n  \"bias\": \"none\",\n"))
      << text;
  EXPECT_THAT(text, HasSubstr("\n  \"lora_alpha\": 32,\n  \"lora_bias\": false,\n  \"lora_dropout\": 0.05,\n"));
  EXPECT_THAT(text, HasSubstr("\n  \"target_modules\": [\n    \"q_proj\",\n    \"v_proj\"\n  ],\n"));
  EXPECT_THAT(text, HasSubstr("\n  \"use_rslora\": false"));
  EXPECT_EQ(parse_json(text, "x").size(), 41u);
}

TEST(AdapterConfigFile, EveryFieldSurvives) {
  AdapterConfig c{.r = 3,
                  .alpha = 7.5,
                  .dropout = 0.1,
                  .target_pattern = ".*q_proj",
                  .exclude_modules = {"k_proj"},
                  .rank_pattern = {{"b", 2}, {"a", 4}},  // the first that matches counts
                  .alpha_pattern = {{"layers.1.b", 0.5}, {"b", 3}},
                  .modules_to_save = {"lm_head"},
                  .token_rows = {{"embed_tokens", {4, 2}}, {"wte", {1}}},
                  .ensure_weight_tying = true,
                  .use_rslora = true,
                  .use_dora = true,
                  .fan_in_fan_out = true,
                  .init = "pissa_niter_4",
                  .base_model = "x/y \"z\""};
  EXPECT_EQ(config_of(adapter_config_text(c)), c);
  AdapterConfig layers{.target_modules = {"q_proj"},
                       .token_rows = {{"", {7, 3}}},
                       .layers_to_transform = std::vector<std::int64_t>{0, 2},
                       .layers_pattern = {"layers"},
                       .lora_bias = true,
                       .bias = "lora_only"};
  EXPECT_EQ(config_of(adapter_config_text(layers)), layers);
  AdapterConfig loftq{.init = "loftq", .loftq_iterations = 5};
  EXPECT_EQ(config_of(adapter_config_text(loftq)), loftq);
  EXPECT_NE(adapter_config_text(loftq).find("\"loftq_config\": {\n    \"loftq_bits\": 4,\n    \"loftq_iter\": 5\n  }"),
            std::string::npos);
  AdapterConfig all{.all_linear = true, .init = "false"};
  EXPECT_EQ(config_of(adapter_config_text(all)), all);
}

TEST(AdapterConfigText, HasTheRevisionOfTheBaseBesideItsName) {
  const std::string text =
      adapter_config_text({.target_modules = {"q_proj"}, .base_model = "org/name", .revision = "v2"});
  EXPECT_NE(text.find("\"base_model_name_or_path\": \"org/name\""), text.npos) << text;
  const AdapterConfig pinned = config_of(text);
  EXPECT_EQ(pinned.revision, "v2");
  EXPECT_EQ(base_of(pinned), "org/name@v2");
  EXPECT_EQ(base_of({.base_model = "org/name", .revision = "main"}), "org/name");
}

TEST(ModelCard, NamesTheBaseInItsFrontMatter) {
  std::string card = adapter_card({.base_model = "models/base"});
  EXPECT_TRUE(card.starts_with("---\nbase_model: \"models/base\"\nlibrary_name: peft\n")) << card;
}

TEST(MlxAdapter, SurvivesTheRoundTrip) {
  for (bool dora : {false, true}) {
    ModelSpec spec = tiny_spec();
    AdapterConfig config{
        .r = 2, .alpha = 5, .target_modules = {"q_proj", "up_proj"}, .use_dora = dora, .base_model = "b"};
    auto plan = plan_adapter(config, spec, "x");
    auto tensors = adapter_tensors(config, spec, plan);
    std::map<std::string, std::vector<float>> values;
    float next = 0;
    for (auto& t : tensors)
      for (std::int64_t i = 0, n = t.shape[0] * (t.shape.size() == 2 ? t.shape[1] : 1); i < n; ++i)
        values[t.key].push_back(next++);
    TempDir dir;
    write_mlx_adapter(dir.path(), config, spec,
                      [&](const AdapterTensor& t) { return std::span<const float>(values.at(t.key)); });

    SafetensorsFile file(dir / "adapters.safetensors");
    auto& a = file.at("model.layers.0.self_attn.q_proj.lora_a");
    EXPECT_EQ(shape_text(a.shape), fmt::format("[{}, 2]", spec.hidden));
    auto& peft = values.at("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
    EXPECT_EQ(a.floats("x")[1], peft[static_cast<std::size_t>(spec.hidden)]);  // a[0][1] = A[1][0]

    Adapter again = read_adapter(dir.path(), spec);
    EXPECT_EQ(again.values, values);
    EXPECT_EQ(again.plan.modules[0].scale, 2.5);
    EXPECT_EQ(again.config.use_dora, dora);
    Json json = read_json(dir / "adapter_config.json");
    EXPECT_EQ(json["num_layers"], spec.layers);
    EXPECT_EQ(json["lora_parameters"]["keys"], Json::array({"mlp.up_proj", "self_attn.q_proj"}));
  }
}

TEST(MlxAdapter, WithAValueThatIsNotFiniteIsRefused) {
  const ModelSpec spec = tiny_spec();
  const AdapterConfig config{.r = 2, .alpha = 4, .target_modules = {"q_proj"}};
  const std::vector<float> values(static_cast<std::size_t>(2 * std::max(spec.hidden, spec.heads * spec.head_dim)),
                                  std::nanf(""));
  TempDir dir;
  write_mlx_adapter(dir.path(), config, spec, [&](const AdapterTensor& t) {
    return std::span(values).first(static_cast<std::size_t>(t.shape[0] * t.shape[1]));
  });
  EXPECT_THAT(refusal([&] { read_adapter(dir.path(), spec); }),
              HasSubstr("is NaN or infinite at [0, 0]: the adapter is damaged"));
}

// ---- bad configs

class BadAdapterConfig : public testing::TestWithParam<bad::Case> {};

TEST_P(BadAdapterConfig, IsRejectedWithAReason) {
  Json json = parse_json(bad::kGoodAdapterConfig, "good");
  json.merge_patch(parse_json(GetParam().change, "change"));
  std::string text = refusal([&] { plan_adapter(read_adapter_config(json, "config"), tiny_spec(), "config"); });
  EXPECT_THAT(text, HasSubstr(GetParam().message));
  EXPECT_TRUE(text.starts_with("config")) << text;
}

INSTANTIATE_TEST_SUITE_P(Table, BadAdapterConfig, testing::ValuesIn(bad::kAdapterConfigs),
                         [](auto& one) { return one.param.name; });

TEST(AdapterConfigFile, UnknownKeysAreIgnored) {
  EXPECT_EQ(config_of(R"({"peft_type": "LORA", "r": 2, "some_future_key": 1})").r, 2);
}

// Embedding and head of a tied model with an adapter, as in PEFT.
TEST(AdapterPlan, UntiesEmbeddingAndHeadUnlessTheyShare) {
  ModelSpec spec = tiny_spec();
  spec.tied = true;
  auto plan = [&](AdapterConfig config) {
    config.target_modules.push_back("q_proj");
    return plan_adapter(config, spec, "config");
  };
  auto saved = [](const AdapterPlan& p) {
    std::vector<std::string> out;
    for (auto& w : p.saved) out.push_back(w.tensor);
    return out;
  };
  using Names = std::vector<std::string>;
  const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
  EXPECT_FALSE(plan({}).unties_head);
  for (auto& [names, tensors] : {std::pair<Names, Names>{{"embed_tokens"}, {embedding}},
                                 {{"lm_head"}, {head}},
                                 {{"embed_tokens", "lm_head"}, {embedding, head}}}) {
    const AdapterPlan apart = plan({.modules_to_save = names}),
                      together = plan({.modules_to_save = names, .ensure_weight_tying = true});
    EXPECT_TRUE(apart.unties_head);
    EXPECT_EQ(saved(apart), tensors);
    EXPECT_FALSE(together.unties_head);
    EXPECT_EQ(saved(together), Names{embedding});
  }
  EXPECT_TRUE(plan({.target_modules = {"lm_head"}}).unties_head);
  EXPECT_TRUE(plan({.target_modules = {"embed_tokens"}}).unties_head);
  EXPECT_FALSE(plan({.token_rows = {{"", {3, 1}}}}).unties_head);
  EXPECT_FALSE(plan({.token_rows = {{"embed_tokens", {3, 1}}, {"lm_head", {3, 1}}}}).unties_head);
  EXPECT_EQ(plan({.token_rows = {{"embed_tokens", {3, 1}}, {"lm_head", {3, 1}}}}).rows.size(), 1u);
  EXPECT_TRUE(plan({.token_rows = {{"embed_tokens", {3, 1}}, {"lm_head", {3, 2}}}}).unties_head);
  EXPECT_TRUE(plan({.token_rows = {{"lm_head", {3}}}}).unties_head);

  auto problem = [&](AdapterConfig config) { return refusal([&] { plan(config); }); };
  EXPECT_THAT(problem({.token_rows = {{"", {3}}, {"lm_head", {4}}}, .ensure_weight_tying = true}),
              HasSubstr("ensure_weight_tying needs the same trainable_token_indices"));
  EXPECT_THAT(problem({.target_modules = {"embed_tokens"}, .ensure_weight_tying = true}),
              HasSubstr("ensure_weight_tying with LoRA"));
  EXPECT_THAT(problem({.modules_to_save = {"embed_tokens"}, .token_rows = {{"", {3}}}}),
              HasSubstr("in trainable_token_indices and in modules_to_save"));
  EXPECT_THAT(problem({.modules_to_save = {"lm_head"}, .token_rows = {{"", {3}}}}),
              HasSubstr("this model's head is tied, so trainable_token_indices trains its rows"));
  EXPECT_THAT(problem({.token_rows = {{"wte", {3}}}}),
              HasSubstr("names 'wte'; choose from model.embed_tokens, lm_head"));
  EXPECT_THAT(problem({.token_rows = {{"", {3, 3}}}}), HasSubstr("names token 3 twice"));
  EXPECT_THAT(problem({.token_rows = {{"", {1 << 20}}}}), HasSubstr("is not in the vocabulary of"));
}

// Axolotl's lora_target_linear with peft_layers_to_transform.
TEST(AdapterPlan, WritesEveryLinearLayerAsAListOfNames) {
  const ModelSpec spec = tiny_spec();
  AdapterConfig config{
      .target_modules = {"embed_tokens"}, .all_linear = true, .layers_to_transform = std::vector<std::int64_t>{1}};
  const AdapterConfig resolved = resolved_config(config, spec);
  EXPECT_FALSE(resolved.all_linear);
  EXPECT_THAT(resolved.target_modules, testing::ElementsAre("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                                                            "up_proj", "down_proj", "embed_tokens"));
  for (const AdapterConfig& c : {config, resolved}) {
    const AdapterPlan plan = plan_adapter(c, spec, "x");
    EXPECT_EQ(plan.modules.size(), 7u);
    for (auto& m : plan.modules) EXPECT_THAT(m.module.name, HasSubstr("layers.1."));
  }
}

// As a list of names, every linear layer and what the regular expression matches.
TEST(AdapterPlan, EveryLinearLayerComesInAdditionToAPattern) {
  const ModelSpec spec = tiny_spec();
  const AdapterConfig config{.target_pattern = ".*(embed_tokens|1.*q_proj)", .all_linear = true};
  const AdapterConfig resolved = resolved_config(config, spec);
  EXPECT_EQ(resolved.target_pattern, "");
  EXPECT_THAT(resolved.target_modules, testing::ElementsAre("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                                                            "up_proj", "down_proj", "model.embed_tokens"));
  const auto names = [&](const AdapterConfig& c) {
    std::vector<std::string> out;
    for (auto& m : plan_adapter(c, spec, "x").modules) out.push_back(m.module.name);
    return out;
  };
  EXPECT_EQ(names(resolved).size(), static_cast<std::size_t>(7 * spec.layers + 1));
  EXPECT_EQ(names(resolved), names(config));
}

// ---- bad folders: the golden adapter with one thing changed in its weights or files

class BadAdapterFolder : public testing::Test {
 protected:
  BadAdapterFolder() : spec_(tiny_spec()), adapter_(read_adapter(kGolden + "llama_tiny/lora", spec_)) {}

  std::string message() {
    return refusal([&] { read_adapter(dir_.path(), spec_); });
  }
  /// Writes the adapter with its tensors changed.
  template <class F>
  void write(F change) {
    AdapterConfig config = adapter_.config;
    std::vector<TensorInfo> infos;
    for (auto& t : adapter_.tensors) infos.push_back({t.key, DType::f32, t.shape});
    change(config, infos);
    std::vector<float> zeros(1 << 16);
    write_safetensors(dir_ / "adapter_model.safetensors", infos, [&](const TensorInfo& t) {
      return std::span<const float>(zeros).first(static_cast<std::size_t>(t.size()));
    });
    put(dir_ / "adapter_config.json", adapter_config_text(config));
  }

  ModelSpec spec_;
  Adapter adapter_;
  TempDir dir_;
};

TEST_F(BadAdapterFolder, APairIsIncomplete) {
  write([](auto&, auto& infos) { infos.erase(infos.begin()); });
  EXPECT_THAT(message(), HasSubstr("lora_A.weight' is missing"));
}

TEST_F(BadAdapterFolder, ShapesAreAllNamedAtOnce) {
  write([](auto&, auto& infos) { infos[0].shape[0] += 1, infos[3].shape[1] += 1; });
  EXPECT_THAT(message(), testing::AllOf(HasSubstr("q_proj.lora_A.weight' is [5, "), HasSubstr("expected [4, "),
                                        HasSubstr("k_proj.lora_B.weight' is [")));
}

TEST_F(BadAdapterFolder, RankOfTheConfigIsAnother) {
  write([](auto& config, auto&) { config.r = 8; });
  EXPECT_THAT(message(), HasSubstr("expected [8, "));
}

TEST_F(BadAdapterFolder, AAndBAreSwapped) {
  write([](auto&, auto& infos) { std::swap(infos[0].shape, infos[1].shape); });
  EXPECT_THAT(message(), HasSubstr("lora_A.weight' is ["));
}

TEST_F(BadAdapterFolder, ATensorIsUnexpectedOrNamedLikeAPath) {
  write([](auto&, auto& infos) { infos.push_back({"../../etc/passwd", DType::f32, {1}}); });
  EXPECT_THAT(message(), HasSubstr("'../../etc/passwd' [1] belongs to no module"));
}

TEST_F(BadAdapterFolder, DoraWithoutMagnitudes) {
  write([](auto& config, auto&) { config.use_dora = true; });
  EXPECT_THAT(message(), HasSubstr("lora_magnitude_vector' is missing"));
}

TEST_F(BadAdapterFolder, MagnitudesWithoutDora) {
  write([](auto&, auto& infos) {
    infos.push_back({"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", DType::f32, {32}});
  });
  EXPECT_THAT(message(), HasSubstr("belongs to no module"));
}

TEST_F(BadAdapterFolder, SavedModuleIsNotInTheFile) {
  write([](auto& config, auto&) { config.modules_to_save = {"embed_tokens"}; });
  EXPECT_THAT(message(), HasSubstr("embed_tokens.weight' is missing"));
}

TEST_F(BadAdapterFolder, ItIsForAModelWithMoreLayers) {
  write([](auto&, auto& infos) {
    infos.push_back({"base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight", DType::f32, {4, 32}});
  });
  EXPECT_THAT(message(), HasSubstr("layers.9.self_attn.q_proj"));
}

TEST_F(BadAdapterFolder, IntegersAreNotWeights) {
  write([](auto&, auto&) {});
  std::vector<TensorInfo> infos;
  for (auto& t : adapter_.tensors) infos.push_back({t.key, DType::i32, t.shape});
  SafetensorsWriter out(dir_ / "adapter_model.safetensors", infos);
  for (auto& t : out.tensors()) out.append(std::string(t.bytes(), '\0').data(), t.bytes());
  out.commit();
  EXPECT_THAT(message(), HasSubstr("is I32"));
}

TEST_F(BadAdapterFolder, ThereIsOnlyAPickle) {
  put(dir_ / "adapter_config.json", adapter_config_text(adapter_.config));
  put(dir_ / "adapter_model.bin", "x");
  EXPECT_THAT(message(), HasSubstr("never read"));
}

TEST_F(BadAdapterFolder, FilesOrFolderAreMissing) {
  EXPECT_THAT(message(), HasSubstr("no adapter_config.json"));
  put(dir_ / "adapter_config.json", adapter_config_text(adapter_.config));
  EXPECT_THAT(message(), HasSubstr("no adapter_model.safetensors"));
  EXPECT_THAT(refusal([&] { read_adapter(dir_ / "nowhere", spec_); }), HasSubstr("no such directory"));
}

TEST_F(BadAdapterFolder, MixedFloatTypesAreFine) {
  write([](auto&, auto&) {});
  auto infos = std::vector<TensorInfo>{};
  for (auto& t : adapter_.tensors)
    infos.push_back({t.key, t.kind == AdapterTensor::Kind::a ? DType::bf16 : DType::f32, t.shape});
  std::map<std::string, const AdapterTensor*> by_key;
  write_safetensors(dir_ / "adapter_model.safetensors", infos,
                    [&](const TensorInfo& t) { return std::span<const float>(adapter_.values.at(t.name)); });
  Adapter again = read_adapter(dir_.path(), spec_);
  auto& key = adapter_.tensors[0].key;
  EXPECT_NEAR(again.values.at(key)[0], adapter_.values.at(key)[0], std::abs(adapter_.values.at(key)[0]) / 128);
}

}  // namespace
}  // namespace dml
