// Files of requests in OpenAI's batch format: through dml serve --input and dml infer --input, with the same answers.
#include <gmock/gmock.h>

#include <filesystem>
#include <iterator>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;

class Batches : public Workshop {};

Json batch_line(const std::string& id, const std::string& url, Json body) {
  return {{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", std::move(body)}};
}

TEST_F(Batches, AreAnsweredInTheirOrderAndTheSameWayByBothCommands) {
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += batch_line(fmt::format("row-{}", i), "/v1/completions",
                       {{"prompt", fmt::format("What is {}?", i % 5)}, {"max_tokens", 2 + i % 4}, {"seed", i}})
                .dump() +
            "\n";
  text += "\n" + batch_line("wrong", "/v1/completions", {{"prompt", "x"}, {"temperature", 9}}).dump() + "\n";
  text += batch_line("vector", "/v1/embeddings", {{"input", "a text"}}).dump() + "\n";
  const std::string file = write("batch.jsonl", text);
  const Ended served =
      dml({"serve", "--base-model", base_directory(), "--input", file, "--output", at("served.jsonl")});
  ASSERT_EQ(served.exit, 0) << served.err;
  EXPECT_THAT(served.err, HasSubstr("13 answered, 1 refused. Prompt: "));
  EXPECT_THAT(served.err, HasSubstr(" tokens/s"));
  const Ended inferred =
      dml({"infer", "--base-model", base_directory(), "--input", file, "--output", at("inferred.jsonl")});
  ASSERT_EQ(inferred.exit, 0) << inferred.err;
  const std::vector<Json> a = json_lines(at("served.jsonl")), b = json_lines(at("inferred.jsonl"));
  ASSERT_EQ(a.size(), 14u);
  ASSERT_EQ(b.size(), 14u);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(a[i]["custom_id"], fmt::format("row-{}", i));
    EXPECT_EQ(a[i]["response"]["status_code"], 200);
    EXPECT_TRUE(a[i]["error"].is_null());
    EXPECT_EQ(a[i]["response"]["body"]["choices"], b[i]["response"]["body"]["choices"]) << i;
    EXPECT_LE(a[i]["response"]["body"]["usage"]["completion_tokens"], 2 + static_cast<int>(i) % 4);
  }
  EXPECT_EQ(a[12]["response"]["status_code"], 400);
  EXPECT_EQ(a[12]["response"]["body"]["error"]["param"], "temperature");
  EXPECT_FALSE(a[13]["response"]["body"]["data"][0]["embedding"].empty());
}

TEST_F(Batches, UseTheChatTemplateOfTheAdapterOrOfTheOption) {
  const std::string trained = recipe("r.yml", tiny_lora() + Keys{{"max_steps", "1"}});
  ASSERT_EQ(train(1, trained).exit, 0);
  Json hello = Json::array({{{"role", "user"}, {"content", "Hello"}}});
  std::string rows = batch_line("c", "/v1/chat/completions", {{"messages", hello}, {"max_tokens", 1}}).dump() + "\n";
  hello.push_back({{"role", "assistant"}, {"content", "Good morning"}});  // stays in the prompt
  rows += batch_line("d", "/v1/chat/completions", {{"messages", hello}, {"max_tokens", 1}}).dump() + "\n";
  const std::string file = write("chat.jsonl", rows);
  for (Words words : {Words{"serve", "--base-model", base_directory(), "--adapter", "lora=" + at("out")},
                      Words{"serve", trained, "--chat-template", "llama2"}}) {
    words.insert(words.end(), {"--input", file, "--output", at("chat.out")});
    const Ended e = dml(words);
    ASSERT_EQ(e.exit, 0) << e.err;
    EXPECT_THAT(e.err, HasSubstr("2 answered, 0 refused"));
    std::vector<int> tokens;
    for (const Json& answer : json_lines(at("chat.out")))
      tokens.push_back(answer["response"]["body"]["usage"]["prompt_tokens"]);
    EXPECT_LT(tokens.at(0), tokens.at(1));
  }
}

TEST_F(Batches, AreAnsweredByTheThreadsOfTheRecipe) {
  constexpr std::ptrdiff_t kThreads = 33;  // more than the cores of a usual machine
  const Keys keys = tiny_lora() + Keys{{"max_steps", "1"}, {"output_dir", at("out")}};
  ASSERT_EQ(train(1, recipe("train.yml", keys)).exit, 0);
  std::string rows;
  for (int i = 0; i < 50; ++i)
    rows +=
        batch_line(fmt::format("{}", i), "/v1/completions", {{"prompt", "What"}, {"max_tokens", 200}}).dump() + "\n";
  const Child server({dml_path(), "serve", recipe("r.yml", keys + Keys{{"threads", fmt::format("{}", kThreads)}}),
                      "--input", write("batch.jsonl", rows), "--output", at("out.jsonl")});
  EXPECT_TRUE(soon([&] {
    std::error_code ended;
    const std::filesystem::directory_iterator tasks(fmt::format("/proc/{}/task", server.pid()), ended);
    return std::distance(begin(tasks), end(tasks)) >= kThreads;
  }));
}

TEST_F(Batches, AreAnsweredByTheAdapterThatIsNamed) {
  const std::string trained = recipe("r.yml", tiny_lora() + Keys{{"max_steps", "1"}});
  ASSERT_EQ(train(1, trained).exit, 0);
  const std::string file =
      write("one.jsonl", batch_line("a", "/v1/completions", {{"prompt", "x"}, {"max_tokens", 1}}).dump() + "\n");
  const auto model_of = [&](Words words) {
    words.insert(words.end(), {"--input", file, "--output", at("one.out")});
    const Ended e = dml(words);
    EXPECT_EQ(e.exit, 0) << e.err;
    return json_lines(at("one.out")).at(0)["response"]["body"]["model"].get<std::string>();
  };
  const std::string base = std::filesystem::path(base_directory()).filename();
  EXPECT_EQ(model_of({"infer", "--base-model", base_directory(), "--adapter", at("out")}), "out");
  EXPECT_EQ(model_of({"infer", trained}), "out");
  EXPECT_EQ(model_of({"infer", trained, "--adapter", "none"}), base);
  EXPECT_EQ(model_of({"serve", "--base-model", base_directory(), "--adapter", at("out")}), base);
  for (const char* command : {"infer", "serve"})
    EXPECT_EQ(model_of({command, trained, "--base-model", base_directory()}), base) << command;
  expect_refused(dml({"infer", "--base-model", base_directory(), "--adapter", at("out") + "=0.5", "--input", file,
                      "--output", at("one.out")}),
                 2, {"weights of adapters are not supported with a batch file"});
}

// Rows of embedding and head for tokens that only an adapter has.
TEST_F(Batches, AdaptersHaveTheirOwnTokensAndTheBaseHasNoneOfThem) {
  for (const std::string name : {"1", "2"}) {
    const Keys keys{{"max_steps", "2"},         {"seed", name},
                    {"tokens", "[<note>]"},     {"lora_target_modules", "[q_proj, embed_tokens, lm_head]"},
                    {"lora_target_linear", ""}, {"output_dir", at("adapter-" + name)}};
    const Ended e = train(1, recipe(name + ".yml", tiny_lora() + keys));
    ASSERT_EQ(e.exit, 0) << e.err;
  }
  const auto lines = [&](const std::string& model) {
    std::string text;
    for (int i = 0; i < 8; ++i) {
      const std::string prompt = fmt::format("What is {}?{}", i, model.size() > 1 ? "" : "<note>");
      Json body{{"model", model}, {"prompt", prompt}, {"max_tokens", 12}, {"logprobs", 2}, {"seed", i}};
      body["temperature"] = i % 2 * 2;
      text += batch_line(fmt::format("{}-{}", model, i), "/v1/completions", body).dump() + "\n";
    }
    return text;
  };
  const auto answers = [&](const std::string& text, const Words& adapters) {
    Words words{"serve", "--base-model", base_directory(), "--input", write("in.jsonl", text)};
    for (const std::string& adapter : adapters)
      words.insert(words.end(), {"--adapter", adapter + "=" + at("adapter-" + adapter)});
    words.insert(words.end(), {"--output", at("out.jsonl")});
    const Ended e = dml(words);
    EXPECT_EQ(e.exit, 0) << e.err;
    std::map<std::string, Json> out;
    for (const Json& row : json_lines(at("out.jsonl"))) out[row["custom_id"]] = row["response"];
    return out;
  };
  const std::string base = std::filesystem::path(base_directory()).filename();
  const auto together =
      answers(lines("1") + lines(base) + lines("2") +
                  batch_line("unknown", "/v1/completions", {{"model", base}, {"prompt", "<note>"}}).dump() + "\n",
              {"1", "2"});
  for (const auto& [model, adapters] : std::map<std::string, Words>{{"1", {"1"}}, {"2", {"2"}}, {base, {}}})
    for (auto& [id, response] : answers(lines(model), adapters)) {
      EXPECT_EQ(response["status_code"], 200) << id;
      EXPECT_EQ(together.at(id)["body"]["choices"], response["body"]["choices"]) << id;
    }
  EXPECT_EQ(together.at("unknown")["status_code"], 400);
  EXPECT_THAT(together.at("unknown")["body"]["error"]["message"].get<std::string>(),
              HasSubstr("token '<note>' has id 2048, but the model " + base + " has 2048 tokens; the model 1 has it"));

  expect_refused(
      dml({"merge", at("1.yml"), "--adapter", at("adapter-1"), "--adapter", at("adapter-2"), "--output", at("merged")}),
      2,
      {"adapter-2: its base values of 'model.embed_tokens.weight' differ from those of an earlier adapter",
       "cannot be combined"});
}

TEST_F(Batches, OfARecipeWithAnInstructionFormatMayBeChats) {
  const std::string trained = recipe("r.yml", tiny_lora() + Keys{{"max_steps", "1"}});
  ASSERT_EQ(train(1, trained).exit, 0);
  const Json hello = Json::array({{{"role", "user"}, {"content", "Hello"}}});
  const Json body{{"messages", hello}, {"max_tokens", 3}, {"temperature", 0}, {"model", "out"}};
  const std::string file = write("chat.jsonl", batch_line("c", "/v1/chat/completions", body).dump() + "\n");
  std::vector<Json> choices;
  for (Words words :
       {Words{"serve", trained}, Words{"serve", "--base-model", base_directory(), "--adapter", at("out")}}) {
    words.insert(words.end(), {"--input", file, "--output", at("chat.out")});
    const Ended e = dml(words);
    ASSERT_EQ(e.exit, 0) << e.err;
    const Json answer = json_lines(at("chat.out")).at(0)["response"];
    ASSERT_EQ(answer["status_code"], 200) << answer;
    choices.push_back(answer["body"]["choices"]);
  }
  EXPECT_EQ(choices[0], choices[1]);
}

TEST_F(Batches, AGgufFileAnswersLikeTheFolderItWasMadeFrom) {
  const Surroundings around{.environment = {"XDG_CACHE_HOME=" + at("cache")}};
  const Words convert{"convert", base_directory(), "--format", "gguf", "--dtype", "f32", "--output", at("model.gguf")};
  ASSERT_EQ(dml(convert).exit, 0);
  const Json body{{"prompt", "What is it?"}, {"max_tokens", 8}, {"temperature", 0}};
  const std::string file = write("one.jsonl", batch_line("one", "/v1/completions", body).dump() + "\n");
  std::vector<Json> choices;
  for (const std::string& model : {base_directory(), at("model.gguf")}) {
    const std::string out = at(fmt::format("{}.jsonl", choices.size()));
    const Ended e = dml({"serve", "--base-model", model, "--input", file, "--output", out}, around);
    ASSERT_EQ(e.exit, 0) << e.err;
    choices.push_back(json_lines(out)[0]["response"]["body"]["choices"]);
  }
  EXPECT_FALSE(choices[0][0]["text"].get<std::string>().empty());
  EXPECT_EQ(choices[0], choices[1]);
}

TEST_F(Batches, WithWrongLinesAreRefusedBeforeAnythingIsAnswered) {
  const std::string file =
      write("batch.jsonl", batch_line("a", "/v1/completions", {{"prompt", "x"}}).dump() + "\n{\n" +
                               batch_line("a", "/v1/files", Json::object()).dump() + "\n" +
                               R"({"custom_id": "b", "method": "GET", "url": "/v1/completions", "body": {}})" + "\n");
  const Ended e = dml({"serve", "--base-model", base_directory(), "--input", file, "--output", at("out.jsonl")});
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err, HasSubstr("batch.jsonl:2"));
  EXPECT_THAT(e.err, HasSubstr("batch.jsonl:3: 'custom_id' is 'a', as in a line before"));
  EXPECT_THAT(e.err, HasSubstr("batch.jsonl:4: 'method' is 'GET', must be POST"));
  EXPECT_FALSE(file_exists(at("out.jsonl")));
  EXPECT_EQ(dml({"infer", "--base-model", base_directory(), "--input",
                 write("one.jsonl", batch_line("a", "/v1/completions", {{"prompt", "x"}}).dump()), "--output",
                 at("out.jsonl"), "--temperature", "1"})
                .exit,
            2);
}

}  // namespace
}  // namespace dml::e2e
