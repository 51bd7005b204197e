// What every command promises: exit codes, what stands on stdout, and that its parts agree with each other.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;

const std::string kTokenizer = DML_SOURCE_DIR "/datasets/quickstart/tokenizer";

class Commands : public Workshop {
 protected:
  std::string out_of(Words words) const {
    Ended e = dml(words);
    EXPECT_EQ(e.exit, 0) << words[0] << ": " << e.err;
    return e.out;
  }
  // The indented words of the overview, up to its examples.
  Words all_commands() const {
    std::string overview = out_of({"--help"});
    overview.resize(overview.find("\nexamples:"));
    Words commands;
    for (std::size_t at = overview.find("\n  "); at != std::string::npos; at = overview.find("\n  ", at + 3))
      commands.push_back(overview.substr(at + 3, overview.find(' ', at + 3) - at - 3));
    return commands;
  }
  // A LoRA run whose adapter says something else than its base.
  void train_adapter() const {
    Ended e = train(1, recipe("lora.yml", tiny_lora() + Keys{{"learning_rate", "2e-2"}, {"lora_dropout", "0"}}));
    ASSERT_EQ(e.exit, 0) << e.err;
  }
  double loss_of(const Words& words, std::size_t row) const {
    std::string text = out_of(words);
    std::vector<Json> lines = json_lines(write("lines.jsonl", text));
    return lines.at(row).at("loss").get<double>();
  }
};

TEST_F(Commands, HelpOfEveryCommandShowsAnExample) {
  Words commands = all_commands();
  EXPECT_THAT(commands, testing::IsSupersetOf({"train", "infer", "preprocess", "inspect", "evaluate", "merge", "plan",
                                               "validate", "tokenize", "list", "schema", "version"}));
  for (const std::string& command : commands) {
    Ended e = dml({command, "--help"});
    EXPECT_EQ(e.exit, 0) << command;
    EXPECT_THAT(e.out, HasSubstr("usage: dml " + command));
    EXPECT_THAT(e.out, HasSubstr("example")) << command;
    EXPECT_EQ(out_of({"help", command}), e.out);
  }
  EXPECT_THAT(out_of({"--help"}), HasSubstr("dml train"));
  EXPECT_THAT(out_of({"help", "lora_r"}), HasSubstr("lora_r"));
  EXPECT_EQ(dml({}).exit, 2);
  EXPECT_THAT(out_of({"version"}), HasSubstr("dml 0"));
}

TEST_F(Commands, StandInTheReadmeAndTheReadmesRecipeIsValid) {
  const std::string readme = read_file(DML_SOURCE_DIR "/README.md");
  Words commands = all_commands();
  for (const std::string& command : commands)
    EXPECT_THAT(readme, HasSubstr("dml " + command)) << "missing in README.md";
  for (std::size_t at = readme.find("`dml "); at != std::string::npos; at = readme.find("`dml ", at + 1)) {
    std::size_t word = at + 5, end = readme.find_first_not_of("abcdefghijklmnopqrstuvwxyz", word);
    EXPECT_THAT(commands, testing::Contains(readme.substr(word, end - word)));
  }
  std::size_t begin = readme.find("```yaml\n") + 8, end = readme.find("```", begin);
  Surroundings root;
  root.folder = DML_SOURCE_DIR;
  Ended e = dml({"validate", write("readme.yml", readme.substr(begin, end - begin))}, root);
  EXPECT_EQ(e.exit, 0) << e.err;
}

TEST_F(Commands, ListAndSchema) {
  for (std::string name : {"models", "prompts", "chat_templates", "optimizers", "schedulers", "distributions"})
    EXPECT_THAT(out_of({"list"}), HasSubstr(out_of({"list", name})));
  EXPECT_EQ(dml({"list", "model"}).exit, 2);
  Json schema = parse_json(out_of({"schema"}), "schema");
  EXPECT_TRUE(schema.at("properties").contains("lora_r"));
}

TEST_F(Commands, ValidateChecksTheRecipeAlone) {
  std::string good = recipe("good.yml", Keys{{"base_model", at("no/such/model")},
                                             {"datasets", "[{path: no/such/rows.jsonl, type: alpaca}]"}});
  Ended e = dml({"validate", good});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("no/such/model"));
  std::string resolved = out_of({"validate", good, "--resolved", "--learning_rate", "1e-4"});
  EXPECT_THAT(resolved, HasSubstr("command line"));
  EXPECT_THAT(resolved, HasSubstr("good.yml:"));
  EXPECT_THAT(resolved, HasSubstr("default"));
  // What it prints is a recipe with the same values.
  std::string again = out_of({"validate", write("again.yml", resolved), "--resolved"});
  auto values = [](const std::string& text) {
    std::string kept;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (auto origin = line.find(" # "); origin != std::string::npos) line.resize(origin);
      kept += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      at = end + 1;
    }
    return kept;
  };
  EXPECT_EQ(values(resolved), values(again));
  Ended bad = dml({"validate", write("bad.yml", "base_model: x\nlora_rr: 8\nlearning_rate: fast\n")});
  EXPECT_EQ(bad.exit, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.yml:2:1"));
  EXPECT_THAT(bad.err, HasSubstr("bad.yml:3:"));
  EXPECT_EQ(bad.out, "");
}

TEST_F(Commands, TokenizeGoesThereAndBack) {
  const std::string text = "Tell me about a hammer.\n  Two  spaces, <s> and é.";
  std::string ids = out_of({"tokenize", "--model", kTokenizer, "--text", text});
  EXPECT_EQ(std::ranges::count(ids, '\n'), 1);
  EXPECT_EQ(out_of({"tokenize", "--model", kTokenizer, "--file", write("t.txt", text)}), ids);
  EXPECT_EQ(out_of({"tokenize", "--model", kTokenizer, "--input",
                    write("t.jsonl", dump(Json{{"text", text}}) + "\n" + dump(Json{{"text", "b"}}) + "\n")})
                .substr(0, ids.size()),
            ids);
  Json special = parse_json(out_of({"tokenize", "--model", kTokenizer, "--text", text, "--special"}), "ids"),
       plain = parse_json(ids, "ids");
  EXPECT_GE(special.size(), plain.size());
  EXPECT_EQ(out_of({"tokenize", "--model", kTokenizer, "--decode", "--text", ids}), dump(Json(text)) + "\n");
  EXPECT_EQ(out_of({"tokenize", "--model", kTokenizer, "--decode", "--input",
                    write("i.jsonl", dump(Json{{"ids", plain}}) + "\n")}),
            dump(Json(text)) + "\n");
  EXPECT_EQ(dml({"tokenize", "--model", kTokenizer}).exit, 2);
  EXPECT_EQ(dml({"tokenize", "--model", kTokenizer, "--decode", "--text", "[99999999]"}).exit, 2);
  EXPECT_EQ(dml({"tokenize", "--model", at("none"), "--text", "a"}).exit, 2);
}

TEST_F(Commands, PreprocessAndInspectShowWhatIsLearned) {
  std::string r = recipe("r.yml", tiny_model());
  std::string folder = out_of({"preprocess", r});
  EXPECT_TRUE(fs::is_directory(folder.substr(0, folder.size() - 1)));
  EXPECT_EQ(out_of({"preprocess", r}), folder);
  EXPECT_THAT(out_of({"inspect", r}), HasSubstr("44 rows"));
  EXPECT_THAT(out_of({"inspect", r, "--row", "3"}), HasSubstr("row 3"));
  std::vector<Json> rows = json_lines(write("rows.out", out_of({"inspect", r, "--rows", "2", "--json"})));
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_THAT(out_of({"inspect", r, "--split", "validation", "--row", "0", "--ids"}), HasSubstr("-100"));
  EXPECT_EQ(dml({"inspect", r, "--row", "44"}).exit, 2);
  EXPECT_EQ(dml({"inspect", r, "--split", "test"}).exit, 2);
}

TEST_F(Commands, InferPrintsTheNewTextAlone) {
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
}

TEST_F(Commands, AConversationReadsStandardInput) {
  train_adapter();
  Surroundings talk;
  talk.input = "Tell me about bread.\n/new\nTell me about rain.\n/quit\n";
  Ended e = dml({"infer", at("lora.yml"), "--greedy", "--max-new-tokens", "5", "--chat"}, talk);
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_GE(std::ranges::count(e.out, '\n'), 2);
}

TEST_F(Commands, AMergedModelSaysWhatBaseAndAdapterSay) {
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

TEST_F(Commands, EvaluateSaysWhatTrainingSaidAtItsEnd) {
  train_adapter();
  Json last = json_lines(at("out/metrics.jsonl")).back();
  ASSERT_EQ(last.at("event"), "eval");
  EXPECT_EQ(loss_of({"evaluate", at("lora.yml"), "--json"}, 1), last.at("loss").get<double>());
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  Ended two = run(on_ranks(2, {"evaluate", at("lora.yml"), "--json"}));
  EXPECT_EQ(two.out, out_of({"evaluate", at("lora.yml"), "--json"}));
}

TEST_F(Commands, PackedAndUnpackedRowsHaveTheSameLoss) {
  alpaca("rows.jsonl", 120);
  train_adapter();
  Keys keys = tiny_lora() + Keys{{"val_set_size", "60"}};
  double plain = loss_of({"evaluate", recipe("plain.yml", keys), "--json"}, 1);
  double packed = loss_of({"evaluate", recipe("packed.yml", keys + Keys{{"sample_packing", "true"}}), "--json"}, 1);
  double together = loss_of({"evaluate", recipe("together.yml", keys + Keys{{"eval_batch_size", "8"}}), "--json"}, 1);
  EXPECT_NEAR(packed / plain, 1, 1e-5);
  EXPECT_NEAR(together / plain, 1, 1e-5);
}

TEST_F(Commands, AFinishedRunIsComplete) {
  train_adapter();
  auto before = results_in(at("out"));
  Ended e = train(1, at("lora.yml"), {"--resume", "auto"});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("complete"));
  EXPECT_EQ(results_in(at("out")), before);
  EXPECT_TRUE(file_exists(at("out/report.html")));
  EXPECT_TRUE(file_exists(at("out/recipe.resolved.yml")));
  Ended anew = train(1, at("lora.yml"));
  EXPECT_EQ(anew.exit, 0);
  EXPECT_TRUE(file_exists(at("out/earlier-1/metrics.jsonl"))) << "an earlier run is moved aside, not overwritten";
  EXPECT_EQ(results_in(at("out")), before);
}

}  // namespace
}  // namespace dml::e2e
