// Further uses of models and adapters: new tokens, several adapters, decoding methods.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

class Models : public Workshop {
 protected:
  std::string out_of(const Words& words) const {
    Ended e = dml(words);
    EXPECT_EQ(e.exit, 0) << words[0] << ": " << e.err;
    return e.out;
  }
  std::int64_t vocabulary_of(const std::string& directory) const {
    return json_file(directory + "/config.json").at("vocab_size");
  }
  static Json json_file(const std::string& path) { return parse_json(read_file(path), path); }
  Words ask(const std::string& recipe, Words more = {}) const {
    Words words{"infer", recipe, "--max-new-tokens", "8", "--prompt", "Tell me about bread."};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

// Tokens enough to outgrow the 2048 rows of the base.
std::string many_tokens() {
  std::string list = "[";
  for (int i = 0; i < 2049; ++i) list += fmt::format("{}\"<note-{}>\"", i ? ", " : "", i);
  return list + "]";
}

TEST_F(Models, NewTokensResizeTheEmbedding) {
  alpaca("rows.jsonl", 44);
  Keys tokens{{"base_model", base_directory()}, {"tokens", many_tokens()}, {"mean_resizing_embeddings", "true"}};
  std::string full =
      recipe("full.yml", tokens + Keys{{"resize_token_embeddings_to_32x", "true"}, {"output_dir", at("full")}});
  Ended trained = train(1, full);
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("Vocabulary resized from 2048 to"));
  EXPECT_GT(vocabulary_of(at("full")), 2048);
  EXPECT_EQ(vocabulary_of(at("full")) % 32, 0);
  out_of(ask(full, {"--greedy"}));

  Keys lora = tiny_lora() + tokens;
  Ended refused = train(1, recipe("none.yml", lora + Keys{{"output_dir", at("none")}}));
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.err, HasSubstr("lora_modules_to_save: [embed_tokens, lm_head]"));
  std::string adapter =
      recipe("adapter.yml", lora + Keys{{"lora_modules_to_save", "[embed_tokens]"}, {"output_dir", at("adapter")}});
  trained = train(1, adapter);
  ASSERT_EQ(trained.exit, 0) << trained.err;
  std::string said = out_of(ask(adapter, {"--greedy"}));
  out_of({"merge", adapter, "--output", at("merged")});
  EXPECT_GT(vocabulary_of(at("merged")), 2048);
  EXPECT_EQ(out_of(ask(adapter, {"--greedy", "--base-model", at("merged")})), said);
}

// No batch has a pad token, so an adapter needs no row for it; a model needs one for every token of its tokenizer.
TEST_F(Models, AMergedModelHasARowForANewPadToken) {
  alpaca("rows.jsonl", 44);
  const Keys pad{{"special_tokens", "{pad_token: \"<fill>\"}"}};
  for (const Keys& more : {Keys{{"save_strategy", "no"}}, Keys{{"lora_modules_to_save", "[embed_tokens, lm_head]"}},
                           Keys{{"relora", "true"}, {"jagged_restart_steps", "12"}}}) {
    const std::string r = recipe("pad.yml", tiny_lora() + pad + more + Keys{{"output_dir", at("adapter")}});
    ASSERT_EQ(train(1, r).exit, 0);
    const bool merged = more.contains("relora");
    const std::string model = at(merged ? "adapter" : "merged");
    if (!merged) {
      out_of({"merge", r, "--output", model});
      EXPECT_EQ(out_of(ask(r, {"--greedy", "--base-model", model})), out_of(ask(r, {"--greedy"})));
    }
    EXPECT_EQ(vocabulary_of(model), 2049);
    EXPECT_EQ(json_file(model + "/config.json").at("pad_token_id"), 2048);
    EXPECT_THAT(out_of({"info", model}), HasSubstr("pad 2048 <fill>"));
    if (!merged) {
      const Ended gguf = dml({"merge", r, "--format", "gguf", "--output", at("m.gguf")});
      EXPECT_EQ(gguf.exit, 0) << gguf.err;
      EXPECT_THAT(gguf.err, Not(HasSubstr("left out")));
      EXPECT_THAT(out_of({"info", at("m.gguf")}), HasSubstr("pad 2048 <fill>"));
    }
    // A second stage takes the model as it is.
    const Ended second =
        train(1, recipe("second.yml", tiny_lora() + pad + Keys{{"base_model", model}, {"output_dir", at("second")}}));
    EXPECT_EQ(second.exit, 0) << second.err;
    std::filesystem::remove_all(at("adapter"));
    std::filesystem::remove_all(at("merged"));
    std::filesystem::remove_all(at("second"));
    std::filesystem::remove(at("m.gguf"));
  }
}

TEST_F(Models, MergingIntoAQuantizedBaseNamesTheKeysThatQuantizeIt) {
  alpaca("rows.jsonl", 44);
  const Keys keys = tiny_lora() + Keys{{"output_dir", at("adapter")}};
  ASSERT_EQ(train(1, recipe("lora.yml", keys)).exit, 0);
  const auto said = [&](const Keys& quantized) {
    std::filesystem::remove_all(at("merged"));
    const Ended e = dml({"merge", recipe("quantized.yml", keys + quantized), "--output", at("merged")});
    EXPECT_EQ(e.exit, 0) << e.err;
    return e.err;
  };
  EXPECT_THAT(said({{"load_in_8bit", "true"}}), HasSubstr("original weights, set load_in_8bit: false\n"));
  EXPECT_THAT(said({{"load_in_4bit", "true"}}), HasSubstr("original weights, set load_in_4bit: false\n"));
  EXPECT_THAT(said({{"adapter", "qlora"}}), HasSubstr("set adapter: lora and load_in_4bit: false\n"));
  EXPECT_THAT(said({}), Not(HasSubstr("original weights")));
}

TEST_F(Models, AdaptersAreAddedUpAndMergedTogether) {
  alpaca("rows.jsonl", 44);
  for (const char* name : {"one", "two"}) {
    Ended e = train(
        1, recipe(fmt::format("{}.yml", name), tiny_lora() + Keys{{"learning_rate", "2e-2"},
                                                                  {"output_dir", at(name)},
                                                                  {"seed", name == std::string("one") ? "1" : "2"}}));
    ASSERT_EQ(e.exit, 0) << e.err;
  }
  std::string one = at("one.yml");
  Words both{"--greedy", "--adapter", at("one") + "=0.5", "--adapter", at("two")};
  std::string said = out_of(ask(one, both));
  Ended merged = dml({"merge", one, "--adapter", at("one") + "=0.5", "--adapter", at("two"), "--output", at("merged")});
  ASSERT_EQ(merged.exit, 0) << merged.err;
  EXPECT_THAT(merged.err, HasSubstr("Merge verified"));
  EXPECT_EQ(out_of(ask(one, {"--greedy", "--base-model", at("merged")})), said);
  EXPECT_EQ(dml(ask(one, {"--adapter", at("one") + "=much"})).exit, 2);
}

TEST_F(Models, AreDecodedInSeveralWays) {
  alpaca("rows.jsonl", 44);
  Ended e = train(1, recipe("lora.yml", tiny_lora()));
  ASSERT_EQ(e.exit, 0) << e.err;
  std::string r = at("lora.yml");
  for (Words way : {Words{"--num-beams", "3"}, Words{"--num-beams", "3", "--length-penalty", "0"},
                    Words{"--greedy", "--kv-cache", "bf16"}, Words{"--greedy", "--kv-cache", "int8"},
                    Words{"--greedy", "--bf16", "true"}, Words{"--greedy", "--bf16", "auto"}})
    EXPECT_EQ(out_of(ask(r, way)), out_of(ask(r, way)));
  for (Words bad :
       {Words{"--num-beams", "0"}, Words{"--num-beams", "3", "--temperature", "1"}, Words{"--length-penalty", "2"},
        Words{"--kv-cache", "f64"}, Words{"--bf16", "yes"}, Words{"--top-p", "2"}, Words{"--min-p", "-1"},
        Words{"--repetition-penalty", "0"}, Words{"--repetition-penalty", "1e-4"},
        Words{"--num-beams", "3", "--regex", "a*"}, Words{"--base-model", at("nowhere")}})
    EXPECT_EQ(dml(ask(r, bad)).exit, 2);

  Ended huge = dml({"infer", r, "--greedy", "--prompt", "Tell me.", "--max-new-tokens", "1000000000"});
  EXPECT_EQ(huge.exit, 0) << huge.err;
  EXPECT_THAT(huge.err, HasSubstr("The context is 256 tokens; generation is limited to "));
  EXPECT_EQ(dml({"infer", r, "--prompt", "Tell me.", "--max-new-tokens", "9000000000000000000"}).exit, 2);

  // Ten prompts in batches are answered as one by one, also where generated tokens have a precision of their own.
  Ended converted =
      dml({"convert", base_directory(), "--format", "gguf", "--dtype", "q8_0", "--output", at("q8_0.gguf")});
  ASSERT_EQ(converted.exit, 0) << converted.err;
  std::string rows;
  for (int i = 0; i < 10; ++i) rows += fmt::format("{{\"prompt\": \"Tell me about bread {}.\"}}\n", i * i);
  write("in.jsonl", rows);
  int set = 0;
  for (Words model : {Words{r}, Words{"--base-model", at("q8_0.gguf"), "--bf16", "auto"}}) {
    Words all{"infer", "--greedy", "--max-new-tokens", "8"};
    all.insert(all.end(), model.begin(), model.end());
    Words file = all;
    const std::string to = at(fmt::format("answers{}.jsonl", ++set));
    file.insert(file.end(), {"--input", at("in.jsonl"), "--output", to});
    out_of(file);
    auto answers = json_lines(to);
    ASSERT_EQ(answers.size(), 10u);
    for (std::size_t i : {0u, 4u, 9u}) {
      Words one = all;
      one.insert(one.end(), {"--prompt", fmt::format("Tell me about bread {}.", i * i)});
      EXPECT_EQ(answers[i].at("output").get<std::string>() + "\n", out_of(one));
    }
  }
}

TEST_F(Models, OnlyTheRowsNamedAreTrained) {
  alpaca("rows.jsonl", 44);
  std::string r = recipe("rows.yml", Keys{{"base_model", base_directory()},
                                          {"unfrozen_parameters", "[\"model.embed_tokens.weight[100:200]\"]"}});
  Ended e = train(1, r);
  ASSERT_EQ(e.exit, 0) << e.err;
  // Rows of 32 float32 values; the first tensor of a tied model's file need not be this one, so the files are compared
  // whole.
  std::string before = read_file(base_directory() + "/model.safetensors"),
              after = read_file(at("out/model.safetensors"));
  ASSERT_EQ(before.size(), after.size());
  std::size_t first = before.size(), last = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i] != after[i]) first = std::min(first, i), last = i;
  EXPECT_GT(last, first);
  EXPECT_LE(last - first, 100u * 32 * 4);
  EXPECT_EQ(train(1, recipe("beyond.yml", Keys{{"base_model", base_directory()},
                                               {"output_dir", at("beyond")},
                                               {"unfrozen_parameters", "[\"model.embed_tokens.weight[:9999]\"]"}}))
                .exit,
            2);
}

}  // namespace
}  // namespace dml::e2e
