// Every kind of adapter against tools/make_adapter_golden.py: ten steps of training, then merged, then saved and
// loaded.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "assembly/adapter_argument.h"
#include "assembly/base_model.h"
#include "assembly/model_output.h"
#include "assembly/optimization.h"
#include "core/error.h"
#include "model/golden.h"
#include "model/weight_slots.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

// A path in the folder of these tests.
fs::path temporary(const std::string& name) {
  static const testing_tools::TemporaryFolder folder;
  return folder / name;
}

// `storage` "nf4": linear layers are quantized to 4 bits.
BaseModel tiny(const std::string& storage = "", const std::string& family = "llama_tiny") {
  ModelSection section;
  section.base_model = golden_path(family) + "/model";
  AdapterSection adapter;
  adapter.load_in_4bit = storage == "nf4";
  adapter.quantized_cache_path = temporary("quantized");
  return open_base_model(section, adapter);
}

// Logits after every token of the first document.
std::vector<float> logits(CausalLm& model, const GoldenBatch& batch) {
  model.set_length(batch.longest());
  const std::int64_t vocab = model.spec.vocab, length = batch.starts[1];
  KvCache cache(model.spec.layers, model.spec.kv_heads, model.spec.head_dim, length);
  std::vector<float> out(static_cast<std::size_t>(length * vocab));
  for (std::int64_t t = 0; t < length; ++t) {
    SequenceRows rows{&cache, 0, 1};
    auto at = static_cast<std::size_t>(t);
    PackedBatch part{std::span(batch.tokens).subspan(at, 1), {}, std::span(batch.positions).subspan(at, 1), {}};
    Mat row{out.data() + t * vocab, 1, vocab};
    if (t == 0) model.reserve(std::size_t{1} << 20);
    model.generate(part, {&rows, 1}, row);
  }
  return out;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  return worst;
}

// Ten steps of AdamW as in the golden; returns the mean loss of each step.
std::vector<double> train(CausalLm& model, const GoldenBatch& batch, const Json& golden) {
  AdapterSection adapter;
  OptimSection optim;
  optim.learning_rate = golden["lr"];
  if (golden["loraplus_lr_ratio"] != 1.0) adapter.loraplus_lr_ratio = golden["loraplus_lr_ratio"].get<double>();
  set_learning_rates(model.parameters, optim, adapter);
  model.set_length(batch.longest());
  std::vector<std::vector<float>> gradients;
  for (Unit& u : model.parameters.units()) {
    gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
    u.grad = gradients.back().data();
  }
  model.reserve(model.measure(GoldenModel::shape(batch), true));
  auto losses = ten_adamw_steps(model, batch, optim.learning_rate);
  for (Unit& u : model.parameters.units()) u.grad = nullptr;
  return losses;
}

class AdapterKinds : public testing::TestWithParam<std::string> {};

TEST_P(AdapterKinds, MatchTheReferenceAndSurviveMergingAndSaving) {
  const std::string folder = golden_path("adapters/" + GetParam());
  Json golden = read_json(folder + "/steps.json");
  const std::string family = golden.value("model", "llama_tiny");
  GoldenBatch batch(golden_path(family) + "/batch.json");
  BaseModel base = tiny(golden.value("base", ""), family);
  Training training;
  training.adapter = read_adapter_config_of(folder, "llama");
  TensorSource source = base.source(std::nullopt);
  auto model = build_model(base.spec, source, training, base.directory);
  if (file_exists(folder + "/adapter_model.safetensors")) load_adapter(*model, read_adapter(folder, base.spec), folder);

  auto want = golden["losses"].get<std::vector<double>>(), got = train(*model, batch, golden);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-4) << "step " << i;

  std::vector<float> trained = logits(*model, batch);
  auto [low, high] = std::ranges::minmax(trained);
  const fs::path place = temporary(GetParam());
  fs::create_directories(place / "merged");
  fs::create_directories(place / "adapter");
  write_merged_directory(place / "merged", base, *model, DType::f32);
  write_adapter_directory(place / "adapter", *training.adapter, *model);

  ModelSection section;
  section.base_model = place / "merged";
  const BaseModel whole = open_base_model(section);
  EXPECT_EQ(whole.spec.tied, base.spec.tied && !plan_adapter(*training.adapter, base.spec, "x").unties_head);
  auto merged = make_inference_model(whole, std::nullopt);
  EXPECT_LE(largest_difference(logits(*merged, batch), trained), 1e-5 * (high - low));
  auto again = make_inference_model(base, std::nullopt, {(place / "adapter").string()});
  EXPECT_EQ(logits(*again, batch), trained);
}

INSTANTIATE_TEST_SUITE_P(Goldens, AdapterKinds,
                         testing::Values("lora", "rslora", "dora", "loraplus", "modules_to_save", "patterns", "layers",
                                         "embedding", "head", "ends", "pissa", "olora", "pissa_dora", "loftq",
                                         "loftq_iterated", "nf4_lora", "nf4_dora", "nf4_pissa", "nf4_olora",
                                         "lora_bias", "bias_all", "bias_lora_only", "tied_embedding", "tied_head",
                                         "tied_both", "tied_shared", "tied_lora_head", "tied_rows", "tied_head_rows",
                                         "rows"),
                         [](auto& row) { return row.param; });

TEST(AdapterArgument, IsADirectoryAndItsWeight) {
  const testing_tools::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "lr=2");
  const AdapterArgument plain(folder / "lr=2"), weighted((folder / "lr=2") + "=0.5"), other("a=b=-3"), bare("a/b");
  EXPECT_EQ(plain.directory, folder / "lr=2") << "a directory whose name contains '='";
  EXPECT_FALSE(plain.given_weight);
  EXPECT_EQ(plain.weight(), 1);
  EXPECT_EQ(weighted.directory, folder / "lr=2");
  EXPECT_EQ(weighted.weight(), 0.5);
  EXPECT_EQ(other.directory, "a=b");
  EXPECT_EQ(other.weight(), -3);
  EXPECT_EQ(bare.directory, "a/b");
  EXPECT_EQ(bare.weight(), 1);
  for (const char* text : {"a=", "a=x", "a=0", "a=1e7", "a=nan", "a=0.5x"})
    EXPECT_THROW(AdapterArgument(text).weight(), UserError) << text;
}

TEST(Adapters, InitializedFromTheBaseDoNotChangeTheModel) {
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  BaseModel base = tiny();
  auto plain = logits(*make_inference_model(base, std::nullopt), batch);
  for (const char* init : {"pissa", "olora"})
    for (std::optional<DType> storage : {std::optional<DType>(), std::optional(DType::bf16)}) {
      Training training;
      training.adapter = AdapterConfig{.r = 8, .alpha = 16, .all_linear = true, .init = init};
      TensorSource source = base.source(storage);
      auto model = build_model(base.spec, source, training, base.directory);
      EXPECT_LE(largest_difference(logits(*model, batch), plain), storage == DType::bf16 ? 0.2 : 1e-4) << init;
    }
}

TEST(Adapters, OnATiedEmbeddingAreMergedIntoAnUntiedModel) {
  GoldenBatch batch(golden_path("gemma2") + "/batch.json");
  ModelSection section;
  section.base_model = golden_path("gemma2") + "/model";
  BaseModel base = open_base_model(section);
  Training training;
  training.adapter = AdapterConfig{.r = 3, .alpha = 1, .target_modules = {"embed_tokens"}, .init = "false"};
  TensorSource source = base.source(std::nullopt);
  auto model = build_model(base.spec, source, training, base.directory);
  auto trained = logits(*model, batch);
  auto [low, high] = std::ranges::minmax(trained);
  const fs::path place = temporary("tied");
  fs::create_directories(place);
  write_merged_directory(place, base, *model, DType::f32);
  section.base_model = place;
  BaseModel parted = open_base_model(section);
  EXPECT_FALSE(parted.spec.tied);
  parted.spec.embedding_scale = base.spec.embedding_scale;  // rounded to the file's type, which is another one now
  EXPECT_LE(largest_difference(logits(*make_inference_model(parted, std::nullopt), batch), trained),
            1e-5 * (high - low));
}

// The folder of a golden adapter. Adapters initialized from the base are written with their values times 1.5.
std::string adapter_folder(const BaseModel& base, const std::string& name) {
  const std::string golden = golden_path("adapters/" + name);
  if (file_exists(golden + "/adapter_model.safetensors")) return golden;
  Training training;
  training.adapter = read_adapter_config_of(golden, "llama");
  TensorSource source = base.source(std::nullopt);
  auto model = build_model(base.spec, source, training, base.directory);
  for (Unit& u : model->parameters.units())
    for (std::int64_t i = 0; i < u.size; ++i) u.value.floats()[i] *= 1.5f;
  const fs::path folder = temporary("started-" + name);
  fs::create_directories(folder);
  write_adapter_directory(folder, *training.adapter, *model);
  return folder;
}

// The weights with all adapters, added up by hand: merged one after the other into float32.
void expect_sum(const std::vector<std::pair<const char*, double>>& parts, const std::string& family = "llama_tiny") {
  BaseModel base = tiny("", family);
  auto plain = make_inference_model(base, std::nullopt);
  std::map<std::string, std::vector<double>> sums;
  std::vector<std::string> given;
  for (auto [name, weight] : parts) {
    const std::string folder = adapter_folder(base, name);
    given.push_back(weight == 1 ? folder : fmt::format("{}={}", folder, weight));
  }
  auto together = make_inference_model(base, std::nullopt, given);
  ModelSpec spec = base.spec;
  spec.tied = false;  // the values of the head, whether it is the embedding or not
  const std::vector<WeightName> names = weight_names(spec);
  for (auto [name, weight] : parts) {
    auto model = make_inference_model(base, std::nullopt, {adapter_folder(base, name)});
    for (const WeightName& w : names) {
      auto before = tensor_values(*plain, {&w, 1}, true), after = tensor_values(*model, {&w, 1}, true);
      auto& sum = sums[w.tensor];
      if (sum.empty()) sum.assign(before.begin(), before.end());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * (static_cast<double>(after[i]) - before[i]);
    }
  }
  for (const WeightName& w : names) {
    auto got = tensor_values(*together, {&w, 1}, true);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], sums[w.tensor][i], 2e-6) << w.tensor;
  }
}

TEST(Adapters, AreAddedUp) {
  expect_sum({{"rslora", 1.0}, {"patterns", 0.5}, {"embedding", -2.0}, {"modules_to_save", 1.0}});
}

TEST(Adapters, OfATiedModelAddUp) {
  expect_sum({{"lora_bias", 0.5}, {"lora_bias", -1.0}, {"bias_all", 1.0}}, "qwen2");
  expect_sum({{"bias_lora_only", 1.0}, {"tied_lora_head", 2.0}}, "qwen2");
  expect_sum({{"tied_embedding", 1.0}, {"tied_head", 1.0}, {"bias_lora_only", 1.0}}, "qwen2");
  expect_sum({{"tied_rows", 1.0}, {"lora_bias", 0.5}}, "qwen2");
  expect_sum({{"tied_head_rows", 1.0}, {"tied_embedding", 1.0}}, "qwen2");
  expect_sum({{"tied_shared", 1.0}, {"lora_bias", 0.5}}, "qwen2");
}

TEST(Adapters, ThatAreNotProductsAreAddedUpAsWeights) {
  expect_sum({{"dora", 1.0}, {"lora", 0.5}});
  expect_sum({{"pissa", 1.0}, {"olora", 0.5}, {"loftq", -0.25}, {"pissa_dora", 1.0}});
  expect_sum({{"dora", 0.5}});
  expect_sum({{"dora", 1.0}, {"embedding", 2.0}, {"modules_to_save", 1.0}});
}

TEST(Adapters, ThatSaveTheSameTensorCannotBeAddedUp) {
  BaseModel base = tiny();
  auto golden_adapter = [](const char* name) { return golden_path(std::string("adapters/") + name); };
  auto problem = [&](std::vector<std::string> adapters) {
    try {
      make_inference_model(base, std::nullopt, adapters);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(
      problem({golden_adapter("dora"), golden_adapter("modules_to_save") + "=2"}).find("so its weight must be 1, is 2"),
      std::string::npos);
  EXPECT_NE(problem({golden_adapter("modules_to_save"), golden_adapter("modules_to_save")})
                .find("has its own values of 'lm_head.weight', too"),
            std::string::npos);
  EXPECT_NE(problem({golden_adapter("modules_to_save"), golden_adapter("head")})
                .find("its own values of 'lm_head', which " + golden_adapter("head")),
            std::string::npos);
  EXPECT_NE(problem({golden_adapter("rows"), golden_adapter("modules_to_save")}).find("of which"), std::string::npos);
  EXPECT_NE(problem({golden_adapter("rows"), golden_adapter("rows")}).find("row 5 of 'model.embed_tokens.weight'"),
            std::string::npos);
  EXPECT_NE(
      problem({golden_adapter("rows"), golden_adapter("dora")}).find("trainable_token_indices cannot be combined"),
      std::string::npos);
  EXPECT_NE(problem({golden_adapter("lora") + "=x"}).find("'x' in"), std::string::npos);
}

TEST(Adapters, NameUnsupportedSettings) {
  BaseModel base = tiny();
  auto problem = [&](AdapterConfig config) {
    Training training;
    training.adapter = std::move(config);
    try {
      build_model(base.spec, base.source(std::nullopt), training, "recipe.yml");
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(problem({.target_modules = {"lm_head"}, .use_dora = true}).find("DoRA on 'lm_head' is not supported"),
            std::string::npos);
  EXPECT_NE(problem({.r = 64, .target_modules = {"q_proj"}, .init = "pissa"})
                .find("rank 64 is above the weight's smaller side"),
            std::string::npos);
  for (const char* init : {"corda", "pissa_niter_4"})
    EXPECT_NE(problem({.target_modules = {"q_proj"}, .init = init}).find(init), std::string::npos);
}

TEST(Adapters, OnEveryLinearLayerAdaptOnlyTheChosenLayers) {
  BaseModel base = tiny();
  AdapterSection section;
  section.adapter = AdapterKind::lora;
  section.lora_target_linear = true;
  section.peft_layers_to_transform = {1};
  const TrainableModel trained = make_trainable_model(base, {}, section, 1);
  EXPECT_EQ(trained.adapter->target_modules,
            (std::vector<std::string>{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}));
  for (const Unit& u : trained.model->parameters.units())
    for (const Parameter& p : u.parameters) EXPECT_NE(p.name.find("layers.1."), std::string::npos) << p.name;
}

TEST(Adapters, WithABiasCanOnlyBeMergedIntoABias) {
  BaseModel base = tiny();
  Training training;
  training.adapter = AdapterConfig{.r = 2, .target_modules = {"q_proj"}, .lora_bias = true};
  auto model = build_on(base, std::nullopt, training, "x");
  const fs::path place = temporary("unmerged");
  fs::create_directories(place);
  try {
    write_merged_directory(place, base, *model, DType::f32);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("'model.layers.0.self_attn.q_proj' has no bias"), std::string::npos)
        << e.what();
  }
}

TEST(Adapters, OfLoftqKeepTheirBaseQuantized) {
  BaseModel base = tiny();
  Training training;
  training.adapter = AdapterConfig{.r = 4, .alpha = 4, .all_linear = true, .init = "loftq", .loftq_iterations = 2};
  TensorSource source = base.source(std::nullopt);
  auto model = build_model(base.spec, source, training, base.directory);
  EXPECT_EQ(model->layers[0].mlp.down.value().dtype, DType::nf4);
  BaseModel quantized = tiny("nf4");
  TensorSource small = quantized.source(std::nullopt);
  EXPECT_THROW(build_model(base.spec, small, training, base.directory), UserError);
}

TEST(LearningRates, AreLoraPlusAndGroupsByName) {
  BaseModel base = tiny();
  Training training;
  training.adapter =
      AdapterConfig{.r = 2, .target_modules = {"embed_tokens", "q_proj"}, .modules_to_save = {"lm_head", "model.norm"}};
  TensorSource source = base.source(std::nullopt);
  auto model = build_model(base.spec, source, training, base.directory);
  AdapterSection plus;
  plus.loraplus_lr_ratio = 16;
  plus.loraplus_lr_embedding = 1e-6;
  OptimSection optim;
  optim.learning_rate = 1e-4;
  auto scale = [&](const std::string& end) {
    for (Unit& u : model->parameters.units())
      for (Parameter& p : u.parameters)
        if (p.name.ends_with(end)) return p.learning_rate_scale;
    return -1.f;
  };
  set_learning_rates(model->parameters, optim, plus);
  EXPECT_FLOAT_EQ(scale("0.self_attn.q_proj.lora_A.weight"), 1);
  EXPECT_FLOAT_EQ(scale("0.self_attn.q_proj.lora_B.weight"), 16);
  EXPECT_FLOAT_EQ(scale("lora_embedding_A"), 0.01f);
  EXPECT_FLOAT_EQ(scale("lora_embedding_B"), 0.01f);
  EXPECT_FLOAT_EQ(scale("lm_head.weight"), 1);
  EXPECT_FLOAT_EQ(scale("model.norm.weight"), 16);
  optim.embedding_lr = 5e-5;
  optim.lr_groups = {{.name = "q", .modules = {"q_proj"}, .lr = 2e-4}};
  set_learning_rates(model->parameters, optim, {});
  EXPECT_FLOAT_EQ(scale("q_proj.lora_A.weight"), 2);
  EXPECT_FLOAT_EQ(scale("lm_head.weight"), 0.5f);
  EXPECT_FLOAT_EQ(scale("lora_embedding_A"), 0.5f);
  EXPECT_FLOAT_EQ(scale("model.norm.weight"), 1);
}

}  // namespace
}  // namespace dml
