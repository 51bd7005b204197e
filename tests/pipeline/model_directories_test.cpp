// dml info and dml convert on goldens: every figure, and every conversion back to where it came from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/adapter_io.h"
#include "checkpoint/model_config.h"
#include "core/error.h"
#include "core/files.h"
#include "exchange/gguf_file.h"
#include "model/golden.h"
#include "pipeline/convert.h"
#include "pipeline/info.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

class Directories : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return place_ / name; }
  static std::string model(const std::string& family) { return golden_path(family) + "/model"; }
  static std::string problem(const Conversion& c) {
    try {
      convert(c);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }
  static std::map<std::string, std::vector<float>> values(const std::string& directory) {
    ModelFiles files(directory);
    std::map<std::string, std::vector<float>> out;
    for (const TensorView& t : files.tensors()) out[std::string(t.name)] = t.floats(directory);
    return out;
  }

  const testing_tools::TemporaryFolder place_;
};

Json value(const DirectoryInfo& info, const std::string& key) {
  for (auto& row : info.rows)
    if (row.key == key) return row.value;
  return nullptr;
}

TEST_F(Directories, OfModelsAreDescribed) {
  DirectoryInfo info = describe_directory(model("qwen2"));
  EXPECT_EQ(value(info, "kind"), "model");
  EXPECT_EQ(value(info, "family"), "qwen2");
  EXPECT_EQ(value(info, "vocabulary")["tied"], true);
  EXPECT_EQ(value(info, "stored"), value(info, "parameters"));
  EXPECT_TRUE(value(info, "tensors").contains("BF16"));
  EXPECT_THAT(info.refused, testing::ElementsAre(testing::HasSubstr("tokenizer")));  // goldens have none
}

TEST_F(Directories, AsGgufFilesKeepTheirWholeName) {
  fs::copy(model("llama_tiny"), at("Llama-3.2-1B-x"));
  convert({.input = at("Llama-3.2-1B-x"), .output = at("out.gguf"), .format = "gguf"});
  EXPECT_EQ(GgufFile(at("out.gguf")).text("general.name"), "Llama-3.2-1B-x");
  convert({.input = at("out.gguf"), .output = at("again.gguf"), .format = "gguf"});
  EXPECT_EQ(GgufFile(at("again.gguf")).text("general.name"), "out");
}

TEST_F(Directories, OfRewardModelsSaySo) {
  fs::copy(model("llama_tiny"), at("reward"));
  Json config = read_json(at("reward/config.json"));
  config["num_labels"] = 1;
  for (const auto& [architecture, task] : {std::pair{"LlamaForSequenceClassification", Json("reward")},
                                           {"LlamaForTokenClassification", Json("process_reward")},
                                           {"LlamaForCausalLM", Json(nullptr)}}) {
    config["architectures"] = {architecture};
    write_file(at("reward/config.json"), pretty_json(config));
    EXPECT_EQ(value(describe_directory(at("reward")), "task"), task) << architecture;
  }
}

TEST_F(Directories, NameWhatDmlWouldReject) {
  fs::copy(model("llama_tiny"), at("broken"));
  Json config = read_json(at("broken/config.json"));
  config["vocab_size"] = 98;
  write_file(at("broken/config.json"), pretty_json(config));
  EXPECT_THAT(describe_directory(at("broken")).refused,
              testing::Contains(testing::HasSubstr("model.embed_tokens.weight")));
  config["model_type"] = "mamba";
  write_file(at("broken/config.json"), pretty_json(config));
  EXPECT_THAT(describe_directory(at("broken")).refused, testing::Contains(testing::HasSubstr("mamba")));
  EXPECT_THROW(describe_directory(at("nothing")), UserError);
  EXPECT_THROW(describe_directory(place_.path()), UserError);
}

TEST_F(Directories, OfAdaptersAreDescribed) {
  DirectoryInfo info = describe_directory(golden_path("adapters/rslora"));
  EXPECT_EQ(value(info, "kind"), "peft");
  EXPECT_EQ(value(info, "rank"), 4);
  EXPECT_EQ(value(info, "alpha")["rslora"], true);
  EXPECT_EQ(value(info, "targets"), Json::array({"q_proj", "v_proj"}));
  EXPECT_TRUE(info.refused.empty());
}

TEST_F(Directories, OfModelsChangeTypeAndShards) {
  convert({.input = model("llama_tiny"), .output = at("small"), .dtype = "bf16", .max_shard_bytes = 20000});
  EXPECT_TRUE(file_exists(at("small/model.safetensors.index.json")));
  EXPECT_GT(ModelFiles(at("small")).paths().size(), 1u);
  EXPECT_EQ(read_json(at("small/config.json"))["torch_dtype"], "bfloat16");
  EXPECT_EQ(read_model_spec(at("small")), read_model_spec(model("llama_tiny")));
  for (auto& [name, want] : values(model("llama_tiny"))) {
    auto got = values(at("small")).at(name);
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], std::abs(want[i]) / 256) << name;
  }
  for (const char* name : {"small/metrics.jsonl", "small/latest", "small/recipe.yml", "small/NOTICE"})
    write_file(at(name), "x");
  convert({.input = at("small"), .output = at("wide"), .dtype = "f32"});
  EXPECT_TRUE(file_exists(at("wide/NOTICE")));
  for (const char* record : {"wide/metrics.jsonl", "wide/latest", "wide/recipe.yml"})
    EXPECT_FALSE(file_exists(at(record))) << record;
  EXPECT_EQ(values(at("wide")), values(at("small")));
  EXPECT_EQ(ModelFiles(at("wide")).paths().size(), 1u);
}

TEST_F(Directories, OfModelsAreUntiedAndTiedAgain) {
  convert({.input = model("qwen2"), .output = at("untied"), .tied = false});
  auto untied = values(at("untied"));
  EXPECT_EQ(untied.at("lm_head.weight"), untied.at("model.embed_tokens.weight"));
  EXPECT_FALSE(read_model_spec(at("untied")).tied);
  convert({.input = at("untied"), .output = at("tied"), .tied = true});
  EXPECT_EQ(values(at("tied")), values(model("qwen2")));
  EXPECT_THAT(problem({.input = model("llama_tiny"), .output = at("no"), .tied = true}), testing::HasSubstr("differ"));
  EXPECT_FALSE(fs::exists(at("no")));
}

// GPT-NeoX calls its head embed_out.
TEST_F(Directories, OfModelsWithAnotherNameOfTheHeadAreUntiedAndTied) {
  fs::copy(model("gpt_neox"), at("base"));
  Json config = read_json(at("base/config.json"));
  config["tie_word_embeddings"] = true;
  write_file(at("base/config.json"), dump(config));
  convert({.input = at("base"), .output = at("untied"), .tied = false});
  const auto untied = values(at("untied"));
  EXPECT_EQ(untied.at("embed_out.weight"), untied.at("gpt_neox.embed_in.weight"));
  EXPECT_EQ(untied.size(), values(model("gpt_neox")).size());
  convert({.input = at("untied"), .output = at("tied"), .tied = true});
  auto without_head = untied;
  without_head.erase("embed_out.weight");
  EXPECT_EQ(values(at("tied")), without_head);
}

TEST_F(Directories, KeepTheirNamedTemplates) {
  fs::copy(model("qwen2"), at("base"));
  fs::create_directory(at("base/additional_chat_templates"));
  write_file(at("base/additional_chat_templates/tool_use.jinja"), "tools");
  convert({.input = at("base"), .output = at("half"), .dtype = "bf16"});
  EXPECT_EQ(read_file(at("half/additional_chat_templates/tool_use.jinja")), "tools");
}

TEST_F(Directories, OfQuantizedModelsBecomePlain) {
  const std::string golden = DML_SOURCE_DIR "/tests/golden/packed/";
  const SafetensorsFile expected(golden + "expected.safetensors");
  for (const char* format : {"awq", "gptq", "mlx"}) {
    const std::string exact = at(std::string(format) + "-f32"), half = at(format);
    convert({.input = golden + format, .output = exact, .dtype = "f32"});
    convert({.input = golden + format, .output = half});  // in the type of its other matrices
    for (const std::string& folder : {exact, half}) {
      const Json config = read_json(folder + "/config.json");
      EXPECT_FALSE(config.contains("quantization") || config.contains("quantization_config")) << folder;
      EXPECT_EQ(config.at("torch_dtype"), folder == exact ? "float32" : "float16");
    }
    const auto plain = values(exact), rounded = values(half);
    const std::string prefix = std::string(format) == "mlx" ? "mlx." : "columns.";
    const std::string layer = "model.layers.0.mlp.down_proj";
    const std::vector<float> want = expected.find(prefix + layer)->floats("");
    const std::vector<float>&got = plain.at(layer + ".weight"), &near = rounded.at(layer + ".weight");
    ASSERT_EQ(got.size(), want.size());
    ASSERT_EQ(near.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 2e-3 * std::abs(want[i]) + 1e-3) << format;
      EXPECT_NEAR(near[i], got[i], 1e-3 * std::abs(got[i]) + 1e-6) << format;
    }
  }
}

TEST_F(Directories, OfAdaptersGoToMlxAndBack) {
  std::string adapter = golden_path("llama_tiny") + "/lora", base = model("llama_tiny");
  convert({.input = adapter, .output = at("mlx"), .format = "mlx", .base_model = base});
  EXPECT_EQ(value(describe_directory(at("mlx")), "kind"), "mlx");
  convert({.input = at("mlx"), .output = at("peft"), .format = "peft", .base_model = base});
  ModelSpec spec = read_model_spec(base);
  EXPECT_EQ(read_adapter(at("peft"), spec).values, read_adapter(adapter, spec).values);
}

// Only PEFT's format has a place for the embedding and the head of a base that others have otherwise.
TEST_F(Directories, OfAdaptersWithTokensThatWereAddedStayInPeft) {
  const std::string base = model("llama_tiny");
  ModelSpec spec = read_model_spec(base);
  Adapter adapter = read_adapter(golden_path("llama_tiny") + "/lora", spec);
  adapter.config.resized = true;
  const auto own = values(base);
  auto write = [&](const std::string& name, std::int64_t added, float change) {
    ModelSpec grown = spec;
    grown.vocab += added;
    std::map<std::string, std::vector<float>> ends;
    fs::create_directory(at(name));
    write_adapter(at(name), adapter.config, adapter_tensors(adapter.config, grown, adapter.plan),
                  [&](const AdapterTensor& t) -> std::span<const float> {
                    if (t.kind != AdapterTensor::Kind::base) return adapter.values.at(t.key);
                    std::vector<float>& end = ends[t.key] = own.at(t.module);
                    end.resize(static_cast<std::size_t>(t.shape[0] * t.shape[1]));
                    end[0] += change;
                    return end;
                  });
  };
  write("added", 2, 0);
  write("changed", 0, 1);
  write("same", 0, 0);
  for (const char* format : {"mlx", "gguf"}) {
    SCOPED_TRACE(format);
    auto problem_of = [&](const std::string& name) {
      return problem({.input = at(name), .output = at(name + "." + format), .format = format, .base_model = base});
    };
    EXPECT_THAT(problem_of("added"), testing::HasSubstr("tokens that were added"));
    EXPECT_THAT(problem_of("changed"), testing::HasSubstr("differs from that of " + base));
    EXPECT_FALSE(fs::exists(at(std::string("added.") + format)));
    EXPECT_EQ(problem_of("same"), "");
  }
  EXPECT_EQ(problem({.input = at("added"), .output = at("peft"), .format = "peft", .base_model = base}), "");
}

TEST_F(Directories, WithAValueThatIsNotFiniteAreRefused) {
  fs::copy(model("llama_tiny"), at("damaged"));
  std::string bytes = read_file(at("damaged/model.safetensors"));
  bytes.replace(bytes.size() - 2, 2, "\xc0\x7f");  // NaN, as f32 and as bf16
  write_file(at("damaged/model.safetensors"), bytes);
  using Type = std::optional<std::string>;
  for (const Type& dtype : {Type(), Type("f32"), Type("bf16"), Type("f16")})
    EXPECT_THAT(problem({.input = at("damaged"), .output = at("x"), .dtype = dtype}),
                testing::HasSubstr("the model is damaged"))
        << dtype.value_or("as it is");
  EXPECT_FALSE(fs::exists(at("x")));
}

TEST_F(Directories, AreRefusedWhereAConversionMakesNoSense) {
  std::string adapter = golden_path("llama_tiny") + "/lora";
  EXPECT_THAT(problem({.input = adapter, .output = at("x"), .format = "mlx"}), testing::HasSubstr("--base-model"));
  EXPECT_THAT(problem({.input = adapter, .output = at("x"), .format = "peft", .dtype = "bf16"}),
              testing::HasSubstr("--dtype is for models"));
  EXPECT_THAT(problem({.input = adapter, .output = at("x"), .format = "safetensors"}),
              testing::HasSubstr("one of peft, mlx, gguf"));
  for (const std::optional<std::string>& dtype : {std::optional<std::string>(), std::optional<std::string>("bf16")})
    EXPECT_EQ(problem({.input = adapter, .output = at("x"), .dtype = dtype}),
              adapter + " is an adapter: give --format peft, mlx or gguf");
  for (const bool tied : {false, true}) {
    const std::string option = tied ? "--tied" : "--untied";
    EXPECT_EQ(problem({.input = adapter, .output = at("x"), .format = "peft", .tied = tied}),
              option + " is for models; " + adapter + " is an adapter");
    EXPECT_EQ(problem({.input = model("qwen2"), .output = at("x"), .format = "gguf", .tied = tied}),
              option + " does not work with --format gguf");
  }
  for (const std::optional<std::string>& format : {std::optional<std::string>(), std::optional<std::string>("gguf")})
    EXPECT_EQ(problem({.input = model("qwen2"), .output = at("x"), .format = format, .base_model = model("qwen2")}),
              "--base-model is for adapters, and " + model("qwen2") + " is not an adapter");
  EXPECT_THAT(problem({.input = model("qwen2"), .output = at("x"), .format = "mlx"}),
              testing::HasSubstr("becomes gguf or safetensors"));
  EXPECT_THAT(problem({.input = model("qwen2"), .output = at("x"), .dtype = "f8"}),
              testing::HasSubstr("one of f32, f16, bf16"));
  EXPECT_THAT(problem({.input = model("qwen2"), .output = golden_path("qwen2")}), testing::HasSubstr("exists"));
  EXPECT_THAT(problem({.input = at("nothing"), .output = at("x")}), testing::HasSubstr("no such directory"));
  EXPECT_FALSE(fs::exists(at("x")));
}

TEST(Sizes, AreReadWithTheirUnits) {
  EXPECT_EQ(parse_size("5GB", "--s"), 5'000'000'000u);
  EXPECT_EQ(parse_size("1.5MB", "--s"), 1'500'000u);
  EXPECT_EQ(parse_size("70", "--s"), 70u);
  for (const char* text : {"", "GB", "-1GB", "1TB", "0", "nan", "1e99"})
    EXPECT_THROW(parse_size(text, "--s"), UserError) << text;
}

}  // namespace
}  // namespace dml
