// Resized vocabularies, and parameters of which only some rows are trained.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "assembly/model_output.h"
#include "assembly/unfrozen.h"
#include "assembly/vocabulary.h"
#include "checkpoint/adapter_io.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "dist/strategy.h"
#include "model/golden.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

BaseModel base_of(const char* family) {
  ModelSection section;
  section.base_model = golden_path(family) + "/model";
  return open_base_model(section);
}

// Logits after the last of some tokens.
std::vector<float> logits(CausalLm& model, const std::vector<Token>& tokens) {
  const auto length = std::ssize(tokens);
  std::vector<std::int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<float> out(static_cast<std::size_t>(model.spec.vocab));
  KvCache cache(model.spec.layers, model.spec.kv_heads, model.spec.head_dim, length);
  SequenceRows rows{&cache, 0, length};
  model.set_length(length);
  auto call = [&] { model.generate({tokens, {}, positions, {}}, {&rows, 1}, {out.data(), 1, model.spec.vocab}); };
  model.reserve(model.measure_calls(call));
  call();
  return out;
}

const std::vector<Token> kTokens{5, 17, 3, 40, 31, 8, 22};

// The head of a reward model has no rows of tokens, so the advice is about the embedding alone.
TEST(Vocabulary, NewTokensOfARewardModelNeedTheEmbedding) {
  ModelSection section;
  section.base_model = golden_path("llama_tiny") + "/model";
  section.task = ModelTask::reward;
  const BaseModel base = open_base_model(section);
  const std::int64_t first = base.spec.vocab;
  AdapterSection adapter;
  adapter.adapter = AdapterKind::lora;
  adapter.lora_target_linear = true;
  adapter.lora_modules_to_save = {"score"};  // as recipes of reward models do
  try {
    check_resize(base, first + 2, adapter);
    ADD_FAILURE() << "expected an error";
  } catch (const UserError& e) {
    const std::string advice = fmt::format(
        "add lora_modules_to_save: [embed_tokens], or peft_trainable_token_indices: [{}, {}]", first, first + 1);
    EXPECT_TRUE(std::string(e.what()).ends_with(advice)) << e.what();
  }
  AdapterSection rows = adapter, module = adapter;
  rows.peft_trainable_token_indices.tokens = {first, first + 1};
  module.lora_modules_to_save = {"score", "embed_tokens"};
  for (const AdapterSection& advised : {rows, module}) EXPECT_NO_THROW(check_resize(base, first + 2, advised));
}

TEST(Vocabulary, IsResizedWithoutChangingExistingRows) {
  for (const char* family : {"llama_tiny", "qwen3", "gpt2"})
    for (bool mean : {false, true}) {
      BaseModel base = base_of(family);
      const std::int64_t before = base.spec.vocab;
      auto old = logits(*make_inference_model(base, std::nullopt), kTokens);
      ModelSection section;
      section.resize_token_embeddings_to_32x = true;
      section.mean_resizing_embeddings = mean;
      resize_vocabulary(base, before + 3, section, {}, 1);
      EXPECT_EQ(base.spec.vocab, (before + 3 + 31) / 32 * 32);
      auto model = make_inference_model(base, std::nullopt);
      auto now = logits(*model, kTokens);
      EXPECT_EQ(std::vector<float>(now.begin(), now.begin() + before), old);
      double sum = std::accumulate(old.begin(), old.end(), 0.0) / static_cast<double>(before);
      for (auto i = static_cast<std::size_t>(before); mean && i < now.size(); ++i)
        EXPECT_NEAR(now[i], sum, 1e-3) << family;  // the head is linear
      EXPECT_NE(now[static_cast<std::size_t>(before)], mean ? 0 : now[static_cast<std::size_t>(before) + 1]);
    }
}

// No batch contains padding, so a pad token that the recipe adds needs no row beside an adapter.
TEST(Vocabulary, ANewPadTokenNeedsNoRowWithAnAdapter) {
  TokenizerOverrides padded, named;
  padded.pad_token = "<new pad>";
  named.tokens = {"<note>"};
  const testing_tools::TemporaryFolder folder;
  fs::copy(golden_path("tokenizer") + "/spm_bpe.model", folder / "tokenizer.model");
  auto load = [&](const TokenizerOverrides& overrides = {}) { return load_tokenizer(folder.path(), overrides); };
  AdapterSection lora;
  lora.adapter = AdapterKind::lora;
  const auto plain = load()->size();
  const auto with_pad = load(padded), with_name = load(named);
  EXPECT_EQ(with_pad->size(), plain + 1);
  EXPECT_EQ(tokens_with_rows(*with_pad, lora), plain);
  EXPECT_EQ(tokens_with_rows(*with_pad, {}), plain + 1);
  EXPECT_EQ(tokens_with_rows(*with_name, lora), plain + 1);
}

TEST(Vocabulary, IsWrittenWithItsNewSize) {
  BaseModel base = base_of("llama_tiny");
  resize_vocabulary(base, 100, {}, {}, 1);
  Training training;
  training.full = true;
  TensorSource source = base.source(std::nullopt);
  auto model = build_model(base.spec, source, training, base.directory);
  auto want = logits(*model, {5, 99, 98});
  const testing_tools::TemporaryFolder folder;
  const fs::path place = folder.path();
  write_model_directory(place, base, *model, DType::f32);
  ModelSection section;
  section.base_model = place;
  BaseModel again = open_base_model(section);
  EXPECT_EQ(again.spec.vocab, 100);
  EXPECT_EQ(logits(*make_inference_model(again, std::nullopt), {5, 99, 98}), want);
}

// A merged model has the rows that resizing gives the base, whether its head is a matrix of its own or not.
TEST(Vocabulary, OfAMergedModelIsResizedAsTheBaseIs) {
  for (const char* family : {"llama_tiny", "gemma2", "gpt2"}) {
    BaseModel base = base_of(family);
    const std::int64_t before = base.spec.vocab;
    const auto model = make_inference_model(base, std::nullopt);
    ModelSection section;
    section.mean_resizing_embeddings = family == std::string("gpt2");
    const testing_tools::TemporaryFolder folder;
    const std::string merged = folder.path();
    write_merged_directory(merged, base, *model, base.dtype(), rows_for(before + 2, section, 7));
    section.base_model = merged;
    const BaseModel again = open_base_model(section);
    EXPECT_EQ(again.spec.vocab, before + 2) << family;
    resize_vocabulary(base, before + 2, section, {}, 7);
    const std::vector<Token> tokens{5, static_cast<Token>(before), static_cast<Token>(before + 1)};
    EXPECT_EQ(logits(*make_inference_model(again, std::nullopt), tokens),
              logits(*make_inference_model(base, std::nullopt), tokens))
        << family;
    write_merged_directory(merged, base, *model, base.dtype(), rows_for(before - 2, section, 7));  // no row is removed
    EXPECT_EQ(open_base_model(section).spec.vocab, before) << family;
  }
}

TEST(Vocabulary, OfAnAdapterIsRestored) {
  BaseModel base = base_of("llama_tiny");
  AdapterSection adapter;
  adapter.adapter = AdapterKind::lora;
  adapter.lora_target_linear = true;
  ModelSection section;
  EXPECT_THROW(resize_vocabulary(base, 100, section, adapter, 1), UserError);
  adapter.lora_modules_to_save = {"embed_tokens"};
  EXPECT_THROW(resize_vocabulary(base, 100, section, adapter, 1), UserError);
  adapter.lora_modules_to_save = {"embed_tokens", "lm_head"};
  resize_vocabulary(base, 100, section, adapter, 1);
  TrainableModel trained = make_trainable_model(base, section, adapter, 1);
  auto want = logits(*trained.model, {5, 99, 98});
  const testing_tools::TemporaryFolder folder;
  const fs::path place = folder.path();
  write_adapter_directory(place, *trained.adapter, *trained.model);
  const SafetensorsFile file(place / "adapter_model.safetensors");
  for (const char* module : {"model.embed_tokens", "lm_head"})
    for (const char* form : {".weight", ".modules_to_save.weight", ".original_module.weight"})
      EXPECT_EQ(file.at(fmt::format("base_model.model.{}{}", module, form)).shape[0], 100) << module << form;
  BaseModel again = base_of("llama_tiny");
  fit_vocabulary(again, {place.string()});
  EXPECT_EQ(again.spec.vocab, 100);
  EXPECT_EQ(logits(*make_inference_model(again, std::nullopt, {place.string()}), {5, 99, 98}), want);
}

// Rows of a module that has LoRA are not trained by themselves, so they are not advised.
TEST(Vocabulary, OfAnAdapterOnTheEmbeddingNeedsTheHead) {
  const BaseModel base = base_of("llama_tiny");
  AdapterSection adapter;
  adapter.adapter = AdapterKind::lora;
  adapter.lora_target_modules.names = {"q_proj", "embed_tokens"};
  try {
    check_resize(base, base.spec.vocab + 1, adapter);
    ADD_FAILURE() << "expected an error";
  } catch (const UserError& e) {
    EXPECT_TRUE(std::string(e.what()).ends_with("add lora_modules_to_save: [embed_tokens, lm_head]")) << e.what();
  }
  adapter.lora_modules_to_save = {"embed_tokens", "lm_head"};
  EXPECT_NO_THROW(check_resize(base, base.spec.vocab + 1, adapter));
}

TEST(Vocabulary, OfATiedModelIsResizedInEmbeddingAndHead) {
  BaseModel base = base_of("gemma2");
  AdapterSection adapter;
  adapter.adapter = AdapterKind::lora;
  adapter.lora_target_linear = true;
  adapter.lora_modules_to_save = {"embed_tokens"};
  resize_vocabulary(base, base.spec.vocab + 1, {}, adapter, 1);
  auto model = make_trainable_model(base, {}, adapter, 1).model;
  EXPECT_EQ(logits(*model, kTokens).size(), 62u);
}

// Only rows of new tokens, in embedding and head: the base values in the adapter's file suffice to resume from it.
TEST(Vocabulary, IsResizedForTrainedRows) {
  for (const char* family : {"llama_tiny", "qwen2"}) {
    SCOPED_TRACE(family);
    BaseModel base = base_of(family);
    const std::int64_t before = base.spec.vocab;
    AdapterSection adapter;
    adapter.adapter = AdapterKind::lora;
    adapter.lora_target_linear = true;
    auto problem = [&] {
      BaseModel fresh = base_of(family);
      try {
        resize_vocabulary(fresh, before + 2, {}, adapter, 1);
      } catch (const UserError& e) {
        return std::string(e.what());
      }
      return std::string();
    };
    const std::string rows = fmt::format("[{}, {}]", before, before + 1);
    EXPECT_NE(problem().find("lora_modules_to_save: [embed_tokens, lm_head], or peft_trainable_token_indices: "),
              std::string::npos)
        << problem();
    EXPECT_NE(problem().find(base.spec.tied ? "indices: " + rows
                                            : fmt::format("{{embed_tokens: {}, lm_head: {}}}", rows, rows)),
              std::string::npos)
        << problem();
    adapter.peft_trainable_token_indices.by_module = {{"embed_tokens", {before}}, {"lm_head", {before}}};
    EXPECT_NE(problem().find("embedding's rows"), std::string::npos) << problem();
    adapter.peft_trainable_token_indices.by_module = {{"embed_tokens", {before, before + 1}},
                                                      {"lm_head", {before, before + 1}}};
    EXPECT_EQ(problem(), "");
    resize_vocabulary(base, before + 2, {}, adapter, 1);
    TrainableModel trained = make_trainable_model(base, {}, adapter, 1);
    for (Unit& u : trained.model->parameters.units())
      for (const Parameter& p : u.parameters)
        if (p.name.ends_with("trainable_tokens_delta"))
          for (std::int64_t i = 0; i < p.size(); ++i) u.value.floats()[p.offset + i] += 0.01f * static_cast<float>(i);
    const std::vector<Token> tokens{5, static_cast<Token>(before + 1), 3, static_cast<Token>(before)};
    const auto want = logits(*trained.model, tokens);
    const testing_tools::TemporaryFolder folder;
    write_adapter_directory(folder.path(), *trained.adapter, *trained.model);

    BaseModel again = base_of(family);
    fit_vocabulary(again, std::vector<std::string>{folder.path()});
    EXPECT_EQ(again.spec.vocab, before + 2);
    EXPECT_EQ(logits(*make_inference_model(again, std::nullopt, {folder.path()}), tokens), want);
    AdapterSection start;
    start.adapter = AdapterKind::lora;
    start.lora_model_dir = folder.path();
    BaseModel third = base_of(family);
    resize_vocabulary(third, before + 2, {}, start, 7);
    EXPECT_EQ(logits(*make_trainable_model(third, {}, start, 7).model, tokens), want);
    EXPECT_THROW(resize_vocabulary(third, before + 3, {}, start, 7), UserError);
  }
}

TEST(Unfrozen, RowsAreReadFromThePattern) {
  auto rule = unfrozen_rule(
      {"^lm_head.weight$[:10]", "model.embed_tokens.weight[4:6]", "model.embed_tokens[6:]", "model.layers.[01].mlp"});
  EXPECT_EQ(rule("lm_head.weight", 97)->last, 10);
  EXPECT_EQ(rule("model.embed_tokens.weight", 97)->first, 4);
  EXPECT_EQ(rule("model.embed_tokens.weight", 97)->last, 97);
  EXPECT_EQ(rule("model.layers.1.mlp.up_proj.weight", 48)->last, 48);
  EXPECT_FALSE(rule("model.layers.2.mlp.up_proj.weight", 48));
  auto problem = [](std::vector<std::string> patterns) {
    try {
      unfrozen_rule(patterns)("lm_head.weight", 97);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(problem({"lm_head.weight[:98]"}).find("has 97 rows"), std::string::npos);
  EXPECT_NE(problem({"lm_head.weight[5:5]"}).find("selects no rows"), std::string::npos);
  EXPECT_NE(problem({"lm_head.weight[99999999999999999999:]"}).find("not a row number"), std::string::npos);
  EXPECT_NE(problem({"lm_head.weight[:5]", "lm_head[7:]"}).find("leave a gap"), std::string::npos);
  EXPECT_NE(problem({"lm_head.weight("}).find("not a regular expression"), std::string::npos);
}

TEST(Unfrozen, PatternsThatMatchNothingAreNamed) {
  const ModelSpec spec = base_of("llama_tiny").spec;
  EXPECT_TRUE(idle_unfrozen_patterns({"^lm_head.weight$[:10]", "model.layers.[01].mlp"}, spec).empty());
  const auto idle = idle_unfrozen_patterns({"model.embed_tokens", "layers.1", "lm_haed"}, spec);
  ASSERT_EQ(idle.size(), 2u);
  EXPECT_NE(idle[0].find("'layers.1' matches no parameter; it is matched from the beginning of names such as model."),
            std::string::npos)
      << idle[0];
  EXPECT_NE(idle[1].find("'lm_haed'"), std::string::npos);
}

TEST(Unfrozen, OnlyTheRowsNamedGetGradientsAndState) {
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  BaseModel base = base_of("llama_tiny");
  UnitHooks no_hooks;
  auto gradients = [&](std::vector<std::string> patterns, std::vector<std::vector<float>>& memory) {
    Training training;
    training.full = true;
    training.unfrozen = unfrozen_rule(patterns);
    TensorSource source = base.source(std::nullopt);
    auto model = build_model(base.spec, source, training, base.directory);
    model->set_length(batch.longest());
    memory.clear();
    for (Unit& u : model->parameters.units()) {
      memory.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = memory.back().data();
    }
    model->reserve(model->measure(GoldenModel::shape(batch), true));
    model->train(batch.view(), {}, no_hooks);
    return model;
  };
  std::vector<std::vector<float>> whole, rows;
  auto all = gradients({"lm_head", "model.embed_tokens"}, whole);
  auto some = gradients({"lm_head.weight[10:13]", "model.embed_tokens.weight[5:]"}, rows);
  const std::int64_t hidden = base.spec.hidden;
  auto check = [&](std::size_t unit, std::int64_t first, std::int64_t last) {
    const Parameter& p = some->parameters.units()[unit].parameters[0];
    for (std::int64_t i = 0; i < p.size(); ++i) {
      auto at = static_cast<std::size_t>(p.offset + i);
      ASSERT_EQ(rows[unit][at], i >= first * hidden && i < last * hidden ? whole[unit][at] : 0) << p.name << " " << i;
    }
  };
  check(0, 5, 97);
  check(some->parameters.units().size() - 1, 10, 13);
  EXPECT_EQ(some->parameters.trainable(), (92 + 3) * hidden);
  auto comm = make_self_comm();
  auto strategy = strategies().at("none").make(*comm, {});
  strategy->adopt(some->parameters, 2);
  std::int64_t updated = 0;
  for (const Shard& s : strategy->shards()) updated += s.size;
  EXPECT_EQ(updated, (92 + 3) * hidden);
}

}  // namespace
}  // namespace dml
