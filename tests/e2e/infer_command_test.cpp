// Answers: of dml infer, of a merged model, and the samples of a run.
#include <algorithm>
#include <sstream>

#include "core/files.h"
#include "e2e/commands.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;

// An untrained model answers in the requested form at any temperature.
TEST_F(Commands, InferFollowsAConstraint) {
  const std::string schema =
      write("s.json", R"({"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 150}},
      "required": ["age"], "additionalProperties": false})");
  Words ask{"infer", "--base-model", base_directory(), "--temperature", "1", "--max-new-tokens",
            "200",   "--prompt",     "Tell me"};
  auto with = [&](Words more) {
    more.insert(more.begin(), ask.begin(), ask.end());
    return out_of(more);
  };
  for (const char* seed : {"1", "2", "3"}) {
    const std::string text = with({"--seed", seed, "--schema", schema});
    const Json value = parse_json(text, "answer");
    EXPECT_LE(value.at("age").get<int>(), 150) << text;
    EXPECT_EQ(out_of({"grammar", "--schema", schema, "--check", write("answer", dump(value))}), "accept\n") << text;
  }
  EXPECT_THAT(with({"--choice", "yes", "--choice", "no"}), testing::AnyOf("yes\n", "no\n"));
  EXPECT_THAT(with({"--regex", "[0-9]{4}-(0[1-9]|1[0-2])"}), testing::MatchesRegex("[0-9][0-9][0-9][0-9]-[01][0-9]\n"));
  EXPECT_THAT(with({"--grammar", write("g.gbnf", "root ::= \"(\" [ab]{2,3} \")\"\n")}),
              testing::MatchesRegex("\\([ab]+\\)\n"));
  ask.insert(ask.end(), {"--choice", "a"});
  ask.insert(ask.end(), {"--regex", "a"});
  expect_refused(dml(ask), 2, {"only one of --schema, --regex, --grammar and --choice"});
  expect_refused(dml({"grammar", "--schema", write("bad.json", R"({"pattern": "(a)\\1"})")}), 2,
                 {"'pattern' at #", "back-references are not supported"});
}

TEST_F(Commands, InferPrintsOnlyTheNewText) {
  std::string lines;
  for (int i = 0; i < 44; ++i)
    lines +=
        dump(Json{{"instruction", fmt::format("Tell me about bread {}.", i)}, {"output", "The river is old."}}) + "\n";
  write("rows.jsonl", lines);
  train_adapter();
  Words ask{"infer", at("lora.yml"), "--greedy", "--max-new-tokens", "12", "--prompt", "Tell me about bread."};
  Ended e = dml(ask);
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("tokens/s"));
  EXPECT_EQ(e.out.find("Tell me"), std::string::npos) << e.out;
  EXPECT_EQ(out_of(ask), e.out) << "greedy text is the same every time";
  Words base = ask;
  base.insert(base.end(), {"--adapter", "none"});
  EXPECT_NE(out_of(base), e.out);

  write("conversation.jsonl", R"({"messages": [{"role": "user", "content": "Tell me about bread."}]})");
  const Ended conversation = dml({"infer", at("lora.yml"), "--greedy", "--max-new-tokens", "12", "--input",
                                  at("conversation.jsonl"), "--output", at("said.jsonl")});
  EXPECT_EQ(conversation.exit, 0) << conversation.err;
  EXPECT_EQ(json_lines(at("said.jsonl")).at(0)["output"].get<std::string>() + "\n", e.out);
  write("conversation.jsonl", R"({"messages": "Tell me"})");
  expect_refused(dml({"infer", at("lora.yml"), "--input", at("conversation.jsonl"), "--output", at("none.jsonl")}), 2,
                 {"conversation.jsonl:1: "});

  write("in.jsonl", "{\"prompt\": \"Tell me about bread.\", \"id\": 7}\n\n{\"prompt\": \"Tell me about the moon.\"}\n");
  Ended rows = dml({"infer", at("lora.yml"), "--greedy", "--max-new-tokens", "12", "--input", at("in.jsonl"),
                    "--output", at("answers.jsonl")});
  ASSERT_EQ(rows.exit, 0) << rows.err;
  EXPECT_EQ(rows.out, "");
  auto answers = json_lines(at("answers.jsonl"));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].at("output").get<std::string>() + "\n", e.out);
  EXPECT_EQ(answers[0].at("id"), 7);

  Words sampled{"infer", at("lora.yml"), "--temperature", "1.5",   "--max-new-tokens",
                "12",    "--prompt",     "Tell me",       "--seed"},
      other = sampled;
  sampled.push_back("1");
  other.push_back("2");
  EXPECT_EQ(out_of(sampled), out_of(sampled));
  EXPECT_NE(out_of(sampled), out_of(other));
  EXPECT_THAT(out_of({"infer", "--base-model", base_directory(), "--raw", "--greedy", "--max-new-tokens", "4",
                      "--prompt", "Tell me"}),
              HasSubstr("\n"));

  EXPECT_EQ(dml({"infer", at("lora.yml"), "--input", at("in.jsonl")}).exit, 2);
  EXPECT_EQ(dml({"infer", at("lora.yml")}).exit, 2);
  Ended broken = dml({"infer", at("lora.yml"), "--input", write("broken.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\n"),
                      "--output", at("none.jsonl")});
  EXPECT_EQ(broken.exit, 2);
  EXPECT_THAT(broken.err, HasSubstr("broken.jsonl:2"));
  EXPECT_FALSE(file_exists(at("none.jsonl")));
  out_of({"infer", "--base-model", base_directory(), "--threads", "1", "--greedy", "--max-new-tokens", "2", "--prompt",
          "a"});
  for (const char* threads : {"0", "5000"})
    expect_refused(dml({"infer", "--base-model", base_directory(), "--threads", threads, "--prompt", "a"}), 2,
                   {"--threads"});
}

TEST_F(Commands, TheFolderAnswersLikeItsRecipe) {
  train_adapter();
  Words ask{"--greedy", "--max-new-tokens", "12", "--prompt", "Tell me about bread."};
  auto answer = [&](Words words) {
    words.insert(words.end(), ask.begin(), ask.end());
    return out_of(words);
  };
  const std::string said = answer({"infer", at("lora.yml")});
  EXPECT_EQ(answer({"infer", "--base-model", base_directory(), "--adapter", at("out")}), said);
  out_of({"merge", at("lora.yml"), "--output", at("merged")});
  EXPECT_EQ(answer({"infer", "--base-model", at("merged")}), said);
  EXPECT_NE(answer({"infer", "--base-model", at("merged"), "--raw"}), said);
  for (std::string folder : {at("out"), at("merged"), at("out/checkpoint-10")})
    for (const char* file : {"chat_template.jinja", "generation_config.json", "README.md"})
      EXPECT_TRUE(file_exists(folder + "/" + file)) << folder << " has no " << file;

  Ended full = train(1, recipe("full.yml", Keys{{"base_model", base_directory()}, {"output_dir", at("full")}}));
  ASSERT_EQ(full.exit, 0) << full.err;
  EXPECT_EQ(answer({"infer", "--base-model", at("full")}), answer({"infer", at("full.yml")}));
}

TEST_F(Commands, SamplesEndWhereAnswersEnd) {
  std::string lines;
  for (int i = 0; i < 44; ++i)
    lines += dump(Json{{"instruction", fmt::format("Tell me {}.", i)}, {"output", ". . . . . . . ."}}) + "\n";
  write("rows.jsonl", lines);
  Keys keys = tiny_lora() + Keys{{"learning_rate", "2e-2"},       {"lora_dropout", "0"},
                                 {"generate_samples", "true"},    {"generation_do_sample", "false"},
                                 {"num_generation_samples", "4"}, {"generation_max_new_tokens", "9"}};
  auto texts = [&](const std::string& folder) {
    std::vector<std::string> out;
    for (const Json& line : json_lines(folder + "/metrics.jsonl"))
      if (line.value("event", "") == "sample" && line.at("step") == 10) out.push_back(line.at("text"));
    return out;
  };
  Ended free = train(1, recipe("free.yml", keys + Keys{{"output_dir", at("free")}}));
  ASSERT_EQ(free.exit, 0) << free.err;
  ASSERT_EQ(texts(at("free")).size(), 4u);
  for (const std::string& text : texts(at("free"))) EXPECT_THAT(text, HasSubstr("."));
  ASSERT_EQ(train(1, recipe("ended.yml", keys + Keys{{"output_dir", at("ended")}, {"eot_tokens", "[\".\"]"}})).exit, 0);
  ASSERT_EQ(texts(at("ended")).size(), 4u);
  for (const std::string& text : texts(at("ended"))) EXPECT_EQ(text.find('.'), text.npos) << text;

  // Three short lines at each evaluation, those of the start included; the report has before and after.
  std::size_t shown = 0;
  std::istringstream screen(free.err);
  for (std::string line; std::getline(screen, line);)
    if (line.find("### Response:") != line.npos && line.find(" → ") != line.npos) {
      ++shown;
      EXPECT_LT(line.size(), 200u);
    }
  EXPECT_EQ(shown, 3u * 3);
  const std::string report = read_file(at("free/report.html"));
  EXPECT_THAT(report, HasSubstr("Before and after"));
}

TEST_F(Commands, AConversationReadsStandardInput) {
  train_adapter();
  const Words chat{"infer", at("lora.yml"), "--greedy", "--max-new-tokens", "5", "--chat"};
  Surroundings talk;
  talk.input = "Tell me about bread.\n/new\nTell me about rain.\n/quit\n";
  Ended e = dml(chat, talk);
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_GE(std::ranges::count(e.out, '\n'), 2);
  EXPECT_THAT(e.err, HasSubstr("Prompt: "));
  EXPECT_THAT(e.err, HasSubstr("Generated: "));

  const std::string file = at("chat.jsonl");
  talk.input =
      "/help\n/retry\nTell me\\\nabout bread.\n/retry\n/save " + file + "\n/undo\n/undo\n/save " + file +
      "\n/set temperatur 1\n/set temperature 200\n/set top-k 3\n/set\n/sav\n/system Be brief.\nHello.\n/save " + file +
      "\n" + std::string(3000, 'x') + "\n/exit\nnever read\n";
  // The folder's template has roles, the recipe's instruction format has not.
  EXPECT_THAT(dml(chat, {.input = "/system Be brief.\n"}).err, HasSubstr("no system message"));
  e = dml({"infer", "--base-model", base_directory(), "--adapter", at("out"), "--greedy", "--max-new-tokens", "5",
           "--chat"},
          talk);
  EXPECT_EQ(e.exit, 0) << e.err;
  for (const char* said :
       {"/undo            remove", "nothing was asked yet", "nothing to undo", "the conversation is empty",
        "did you mean 'temperature'", "'200' is not a number from 0 to 100", "top-k               3",
        "did you mean '/save'", "leaves no room for an answer"})
    EXPECT_THAT(e.err, HasSubstr(said));
  auto rows = json_lines(file);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("messages")[0].at("content"), "Tell me\nabout bread.");
  ASSERT_EQ(rows[0].at("messages").size(), 2u) << "the second answer took the place of the first";
  EXPECT_EQ(rows[0].at("messages")[1].at("role"), "assistant");
  EXPECT_EQ(rows[1].at("messages")[0].at("role"), "system");
}

TEST_F(Commands, AMergedModelAnswersLikeBaseAndAdapter) {
  train_adapter();
  Words ask{"--greedy", "--max-new-tokens", "40", "--prompt", "Tell me about bread."}, with{"infer", at("lora.yml")},
      merged{"infer", at("lora.yml"), "--base-model", at("merged")};
  with.insert(with.end(), ask.begin(), ask.end());
  merged.insert(merged.end(), ask.begin(), ask.end());
  EXPECT_EQ(out_of({"merge", at("lora.yml"), "--output", at("merged")}), at("merged") + "\n");
  EXPECT_EQ(out_of(merged), out_of(with));
  EXPECT_EQ(dml({"merge", at("lora.yml"), "--output", at("merged")}).exit, 2) << "nothing is overwritten";
  EXPECT_EQ(dml({"merge", at("lora.yml"), "--output", base_directory()}).exit, 2);

  double adapted = loss_of({"evaluate", at("lora.yml"), "--json"}, 1);
  std::string whole = recipe("whole.yml", Keys{{"base_model", at("merged")}, {"output_dir", at("nothing")}});
  EXPECT_NEAR(loss_of({"evaluate", whole, "--json"}, 0) / adapted, 1, 1e-5);
  EXPECT_NE(loss_of({"evaluate", at("lora.yml"), "--json"}, 0), adapted);
}

}  // namespace
}  // namespace dml::e2e
