// Invalid directories of models and adapters, given to the built program: one line that names the file, exit code 2,
// and no memory allocated by what the file claims. tests/checkpoint uses the same lists for the readers.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "checkpoint/bad_cases.h"
#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;

constexpr std::size_t kMemory = std::size_t{64} << 20;

class BadModel : public Workshop {
 protected:
  BadModel() { fs::copy(base_directory(), at("base"), fs::copy_options::recursive); }

  void expect_refused(const Ended& e, const std::string& path, const std::string& message) const {
    EXPECT_EQ(e.exit, 2) << e.err;
    EXPECT_EQ(e.out, "");
    EXPECT_TRUE(e.err.starts_with("error: ")) << e.err;
    EXPECT_EQ(std::ranges::count(e.err, '\n'), 1) << e.err;
    EXPECT_THAT(e.err, HasSubstr(path));
    EXPECT_THAT(e.err, HasSubstr(message));
    EXPECT_LT(e.peak, kMemory);
  }

  Ended ask(const Words& more = {}) const {
    Words words = {"infer", "--base-model", at("base"), "--raw", "--max-new-tokens", "1", "--prompt", "a"};
    words.insert(words.end(), more.begin(), more.end());
    return dml(words);
  }
  // The adapter that is put over the base, with its config changed.
  void write_adapter(const Json& config) const {
    fs::create_directories(at("adapter"));
    write("adapter/adapter_config.json", config.dump());
  }
};

Json patched(const char* good, const char* change) {
  Json j = parse_json(good, "good");
  j.merge_patch(parse_json(change, "change"));
  return j;
}

TEST_F(BadModel, ConfigsAreRefusedBeforeMemoryIsTaken) {
  for (const bad::Case& one : bad::kModelConfigs) {
    SCOPED_TRACE(one.name);
    Json config = patched(bad::kGoodModelConfig, one.change);
    config["model_type"] = one.family;
    write("base/config.json", config.dump());
    expect_refused(ask(), at("base/config.json"), one.message);
  }
}

TEST_F(BadModel, FilesThatAreNotConfigsAreRejected) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& bytes : {std::string(), std::string("{"), std::string("[]"), std::string("null"),
                                   std::string("{\"model_type\": \"\xff\"}"), std::string(R"({"a": 1, "a": 2})"),
                                   "{\"a\": " + deep + "}", std::string(10 << 20, ' ')}) {
    SCOPED_TRACE(bytes.substr(0, 20));
    write("base/config.json", bytes);
    expect_refused(ask(), at("base/config.json"), "");
  }
}

TEST_F(BadModel, AdapterConfigsAreRefusedBeforeMemoryIsTaken) {
  for (const bad::Case& one : bad::kAdapterConfigs) {
    SCOPED_TRACE(one.name);
    write_adapter(patched(bad::kGoodAdapterConfig, one.change));
    expect_refused(ask({"--adapter", at("adapter")}), at("adapter"), one.message);
  }
}

TEST_F(BadModel, AdapterFoldersAreRefused) {
  const Words with = {"--adapter", at("adapter")};
  write_adapter(patched(bad::kGoodAdapterConfig, "{}"));
  expect_refused(ask(with), at("adapter"), "no adapter_model.safetensors");
  write("adapter/adapter_model.bin", "x");
  expect_refused(ask(with), at("adapter"), "never read");
  for (const std::string& bytes : {std::string(), std::string("1234567"), std::string(8, '\0'), std::string(8, '\xff'),
                                   std::string("\2\0\0\0\0\0\0\0[]", 10)}) {
    SCOPED_TRACE(bytes.size());
    write("adapter/adapter_model.safetensors", bytes);
    expect_refused(ask(with), at("adapter/adapter_model.safetensors"), "");
  }
  write("adapter/adapter_model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  Ended empty = ask(with);
  EXPECT_EQ(empty.exit, 2);
  EXPECT_THAT(empty.err, HasSubstr("q_proj.lora_A.weight' is missing"));
}

TEST_F(BadModel, IndexesAreRefusedBeforeMemoryIsTaken) {
  ASSERT_EQ(dml({"convert", at("base"), "--max-shard-size", "150KB", "--output", at("sharded")}).exit, 0);
  ASSERT_TRUE(file_exists(at("sharded/model-00002-of-00002.safetensors")));
  fs::remove_all(at("base"));
  fs::rename(at("sharded"), at("base"));
  bad::put_odd_things(at("base"));
  const std::string good = read_file(at("base/model.safetensors.index.json"));
  for (const bad::Case& one : bad::kIndexes) {
    SCOPED_TRACE(one.name);
    write("base/model.safetensors.index.json", patched(good.c_str(), one.change).dump());
    expect_refused(ask(), at("base"), one.message);
  }
}

// A header may promise more than there is memory; nothing is taken before it is known whether the file keeps it.
TEST_F(BadModel, WeightsThatAreNotThereTakeNoMemory) {
  std::string header =
      R"({"model.norm.weight":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}})";
  std::string bytes(8, '\0');
  std::uint64_t n = header.size();
  std::memcpy(bytes.data(), &n, sizeof n);
  write("base/model.safetensors", bytes + header);
  expect_refused(ask(), at("base/model.safetensors"), "");
}

// The experts of a mixture: every tensor that is missing or has another shape than the others, and a router that is
// NaN.
TEST_F(BadModel, ExpertsThatDoNotFitAreNamed) {
  Keys mixture = tiny_model() + Keys{{"max_steps", "1"}, {"output_dir", at("mixture")}};
  std::string& config = mixture["model_config"];
  config.replace(config.find("llama"), 5, "mixtral");
  config.replace(config.find("}"), 1, ", num_local_experts: 3, num_experts_per_tok: 2}");
  ASSERT_EQ(train(1, recipe("mixture.yml", mixture)).exit, 0);
  const std::string file = "mixture/model.safetensors", good = read_file(at(file));
  std::uint64_t length = 0;
  std::memcpy(&length, good.data(), sizeof length);
  const Json header = parse_json(std::string_view(good).substr(8, length), file);
  const std::string experts = "model.layers.1.block_sparse_moe.experts.";
  auto refused = [&](const Json& changed, const std::string& message) {
    std::string text = changed.dump();
    ASSERT_LE(text.size(), length);
    text.resize(length, ' ');
    write(file, good.substr(0, 8) + text + good.substr(8 + length));
    expect_refused(dml({"infer", "--base-model", at("mixture"), "--raw", "--max-new-tokens", "1", "--prompt", "a"}),
                   at("mixture"), message);
  };
  Json missing = header;
  missing["x"] = missing[experts + "1.w2.weight"];
  missing.erase(experts + "1.w2.weight");
  refused(missing, "'" + experts + "1.w2.weight' is missing");
  Json turned = header;
  std::swap(turned[experts + "2.w1.weight"]["shape"][0], turned[experts + "2.w1.weight"]["shape"][1]);
  refused(turned, "'" + experts + "2.w1.weight' is [32, 64], config.json asks for [64, 32]");

  std::string bad = good;
  const Json& router = header["model.layers.0.block_sparse_moe.gate.weight"];
  const auto at_router = 8 + length + router["data_offsets"][0].get<std::uint64_t>();
  std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(at_router), 4, '\xff');
  write(file, bad);
  const Ended e = train(1, recipe("nan.yml", tiny_lora() + Keys{{"base_model", at("mixture")},
                                                                {"lora_target_linear", ""},
                                                                {"lora_target_modules", "[q_proj]"}}));
  EXPECT_EQ(e.exit, 2) << e.err;
  EXPECT_THAT(e.err, HasSubstr("model.layers.0.block_sparse_moe.gate.weight"));
  expect_refused(dml({"infer", "--base-model", at("mixture"), "--raw", "--max-new-tokens", "1", "--prompt", "a"}),
                 at("mixture"), "'model.layers.0.block_sparse_moe.gate.weight' is NaN or infinite at [0, 0]");

  // Other tensors are read when answers are not numbers.
  bad = good;
  const auto at_norm = 8 + length + header["model.norm.weight"]["data_offsets"][0].get<std::uint64_t>();
  std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(at_norm), 4, '\xff');
  write(file, bad);
  expect_refused(dml({"infer", "--base-model", at("mixture"), "--raw", "--max-new-tokens", "1", "--prompt", "a"}),
                 at("mixture"), "'model.norm.weight' is NaN or infinite at [0]");
}

TEST_F(BadModel, IsRefusedBeforeTheDataArePrepared) {
  Json config = patched(bad::kGoodModelConfig, R"({"model_type": "llama", "num_attention_heads": 5})");
  write("base/config.json", config.dump());
  expect_refused(train(1, recipe("r.yml", tiny_lora() + Keys{{"base_model", at("base")}})), at("base/config.json"),
                 "not divisible by 5");
  EXPECT_FALSE(file_exists(at("prepared")));
}

// A model larger than the machine is refused by its need, before any of it is made.
TEST_F(BadModel, AModelLargerThanMemoryIsRefusedByItsNeed) {
  Ended e =
      train(1, recipe("huge.yml",
                      tiny_model() +
                          Keys{{"model_config",
                                "{model_type: llama, hidden_size: 65536, intermediate_size: 262144, num_hidden_layers: "
                                "128, num_attention_heads: 512, num_key_value_heads: 512, vocab_size: 512}"}}));
  EXPECT_EQ(e.exit, 2) << e.err;
  EXPECT_THAT(e.err, HasSubstr("is available"));
  EXPECT_LT(e.peak, kMemory);
}

TEST_F(BadModel, AnAdapterLargerThanMemoryIsRefusedByItsNeed) {
  if (sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) > std::int64_t{400'000'000'000})
    GTEST_SKIP() << "this machine could hold it";
  // A base of holes, read as zeros: 64 layers × 4096, with an adapter of rank 16384 on each of 448 matrices.
  fs::remove(at("base/model.safetensors"));
  write("base/config.json",
        R"({"model_type": "llama", "vocab_size": 2048, "hidden_size": 4096, "intermediate_size": 4096,
      "num_hidden_layers": 64, "num_attention_heads": 32, "tie_word_embeddings": true, "eos_token_id": 2})");
  std::string header = "{";
  std::int64_t end = 0;
  auto add = [&](const std::string& name, const std::string& shape, std::int64_t size) {
    header += fmt::format(R"({}"{}":{{"dtype":"BF16","shape":[{}],"data_offsets":[{},{}]}})", end ? "," : "", name,
                          shape, end, end + 2 * size);
    end += 2 * size;
  };
  add("model.embed_tokens.weight", "2048,4096", 2048 * 4096);
  add("model.norm.weight", "4096", 4096);
  for (int layer = 0; layer < 64; ++layer) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      add(fmt::format("model.layers.{}.{}.weight", layer, norm), "4096", 4096);
    for (const char* m : {"self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"})
      add(fmt::format("model.layers.{}.{}_proj.weight", layer, m), "4096,4096", 4096 * 4096);
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  std::uint64_t n = header.size();
  std::memcpy(length.data(), &n, sizeof n);
  std::string path = write("base/model.safetensors", length + header);
  fs::resize_file(path, 8 + header.size() + static_cast<std::size_t>(end));
  Ended e = train(1, recipe("huge.yml", tiny_lora() + Keys{{"base_model", at("base")}, {"lora_r", "16384"}}));
  EXPECT_EQ(e.exit, 2) << e.err;
  EXPECT_THAT(e.err, HasSubstr("choose a smaller lora_r"));
  EXPECT_LT(e.peak, kMemory);
}

}  // namespace
}  // namespace dml::e2e
