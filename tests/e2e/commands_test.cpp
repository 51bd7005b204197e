// Contracts of all commands: exit codes, output on stdout, and consistency between commands.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <sstream>

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
  EXPECT_THAT(out_of({"--help"}), HasSubstr("dml launch -n 4 train"));
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
  Ended e = dml({"validate", "--recipe-only", write("readme.yml", readme.substr(begin, end - begin))}, root);
  EXPECT_EQ(e.exit, 0) << e.err;
}

TEST_F(Commands, ListAndSchema) {
  for (std::string name : {"models", "prompts", "chat_templates", "objectives", "optimizers", "schedulers",
                           "distributions", "eval_metrics"})
    EXPECT_THAT(out_of({"list"}), HasSubstr(out_of({"list", name})));
  EXPECT_EQ(dml({"list", "model"}).exit, 2);
  Json schema = parse_json(out_of({"schema"}), "schema");
  EXPECT_TRUE(schema.at("properties").contains("lora_r"));
}

TEST_F(Commands, DiffNamesTheSettingsInWhichTwoRecipesDiffer) {
  const std::string one = recipe("one.yml", tiny_lora() + Keys{{"num_epochs", "2"}}),
                    other = recipe("other.yml", tiny_lora() + Keys{{"num_epochs", "3"}, {"seed", "42"}}),
                    back = recipe("back.yml", tiny_lora() + Keys{{"num_epochs", "2.0"}});
  EXPECT_THAT(out_of({"diff", one, other}), HasSubstr("num_epochs: 2.0 -> 3.0\n"));
  EXPECT_EQ(out_of({"diff", one, back}), "");
  EXPECT_EQ(dml({"diff", one}).exit, 2);
}

// With model and data on disk, everything that a later command would reject is reported at once.
TEST_F(Commands, ValidateOpensModelAndData) {
  alpaca("rows.jsonl", 20);
  const std::string lora = recipe("good.yml", tiny_lora());
  const Ended good = dml({"validate", lora});
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("good.yml: good"));

  const Ended nothing =
      dml({"validate", lora, "--base_model", at("no/such/model"), "--datasets.0.path", at("none.jsonl")});
  EXPECT_EQ(nothing.exit, 2);
  EXPECT_EQ(nothing.out, "");
  EXPECT_THAT(nothing.err, HasSubstr("'base_model': no such file or directory: '" + at("no/such/model")));
  EXPECT_THAT(nothing.err, HasSubstr("'datasets.0.path': no such file or directory: '" + at("none.jsonl")));

  fs::create_symlink(at("loop"), at("loop"));
  const Ended loop = dml({"validate", lora, "--base_model", at("loop"), "--datasets.0.path", at("loop")});
  EXPECT_EQ(loop.exit, 2);
  for (const char* key : {"base_model", "datasets.0.path"})
    EXPECT_THAT(loop.err, HasSubstr(fmt::format("'{}': '{}' cannot be opened: Too many levels", key, at("loop"))));
  EXPECT_THAT(loop.err, testing::Not(HasSubstr("no such")));

  write("bad.jsonl", read_file(at("rows.jsonl")) + "{\"instruction\": 1}\nx\n");
  const Ended bad = dml({"validate", lora, "--datasets.0.path", at("bad.jsonl"), "--chat_template", "chatmll",
                         "--lora_target_modules", "[no_such_proj]", "--lora_target_linear", "false", "--optim_args",
                         "{momentum: 1}", "--output_dir", at("rows.jsonl")});
  EXPECT_EQ(bad.exit, 2);
  for (const char* line : {"bad.jsonl:21: ", "bad.jsonl:22: ", "command line: unknown chat_template ",
                           "did you mean 'chatml'?", "'no_such_proj' match no module",
                           "command line: optim_args: unknown argument 'momentum'", "command line: output_dir: "})
    EXPECT_THAT(bad.err, HasSubstr(line));
  EXPECT_EQ(std::ranges::count(bad.err, '\n'), 7) << bad.err;  // and how many rows were checked
  EXPECT_FALSE(file_exists(at("prepared")));

  const Ended check = dml({"preprocess", lora, "--check", "--datasets.0.path", at("bad.jsonl")});
  EXPECT_EQ(check.exit, 2);
  EXPECT_EQ(std::ranges::count(check.out, '\n'), 2) << check.out;
  EXPECT_THAT(check.out, HasSubstr("bad.jsonl:22: "));
  EXPECT_THAT(check.err, HasSubstr("22 rows read, 2 problems"));
  EXPECT_EQ(dml({"preprocess", lora, "--check"}).exit, 0);
}

// A mistake in a setting does not hide what the disk would reject.
TEST_F(Commands, ValidateLooksAtTheDiskInSpiteOfMistakesInTheRecipe) {
  alpaca("rows.jsonl", 20);
  const Keys mistakes{{"sequence_len", "0"}, {"lora_rr", "8"}};
  const Ended absent = dml({"validate", recipe("absent.yml", tiny_lora() + mistakes + Keys{{"base_model", at("no")}}),
                            "--datasets.0.path", at("none.jsonl"), "--datasets.0.type", "alpacca"});
  EXPECT_EQ(absent.exit, 2);
  for (const char* text : {"sequence_len", "'lora_rr'", "'base_model': no such file or directory",
                           "'datasets.0.path': no such file or directory", "did you mean 'alpaca'?"})
    EXPECT_THAT(absent.err, HasSubstr(text));
  EXPECT_THAT(absent.err, HasSubstr("are checked when its settings are valid"));

  fs::create_directory(at("broken"));
  write("broken/config.json", R"({"model_type": "llamma"})");
  const Ended broken = dml({"validate", recipe("broken.yml", tiny_lora() + mistakes), "--base_model", at("broken")});
  EXPECT_THAT(broken.err, AllOf(HasSubstr("sequence_len"), HasSubstr("llamma")));
  write("bad.jsonl", read_file(at("rows.jsonl")) + "{\"instruction\": 1}\n");
  const Ended rows =
      dml({"validate", recipe("rows.yml", tiny_lora() + mistakes), "--datasets.0.path", at("bad.jsonl")});
  EXPECT_THAT(rows.err, AllOf(HasSubstr("sequence_len"), HasSubstr("'lora_rr'"), HasSubstr("bad.jsonl:21: ")));
}

// Problems with model or data are reported with the line of the recipe that names them; by train, too.
TEST_F(Commands, ProblemsCarryTheLineOfTheirKey) {
  alpaca("rows.jsonl", 20);
  const auto named = [&](const std::string& name, const Keys& keys, const std::string& key, const std::string& text) {
    const std::string path = recipe(name, tiny_lora() + keys);
    const std::string lines = read_file(path);
    const auto line = std::ranges::count(lines.substr(0, lines.find("\n" + key + ":") + 1), '\n') + 1;
    const std::string place = fmt::format("{}:{}:{}: ", path, line, key.size() + 3);
    for (const char* command : {"validate", "train"}) {
      const Ended e = dml({command, path});
      EXPECT_EQ(e.exit, 2) << command;
      EXPECT_THAT(e.err, HasSubstr("error: " + place)) << command;
      EXPECT_THAT(e.err, HasSubstr(text)) << command;
    }
  };
  named("a.yml", {{"lora_target_linear", ""}, {"lora_target_modules", "[q_porj]"}}, "lora_target_modules",
        "'q_porj' match no module");
  named("b.yml", {{"lora_modules_to_save", "[lm_haed]"}}, "lora_modules_to_save", "did you mean 'lm_head'?");
  named("c.yml", {{"peft_trainable_token_indices", "[99999]"}}, "peft_trainable_token_indices",
        "not in the vocabulary");
  named("d.yml", {{"optim_args", "{bta1: 0.9}"}}, "optim_args", "unknown argument 'bta1'");
  named("e.yml", {{"chat_template", "chatmll"}}, "chat_template", "did you mean 'chatml'?");
  write("file", "");
  named("f.yml", {{"output_dir", at("file")}}, "output_dir", "is a file");
  // The table of a list begins after its key.
  const std::string path =
      recipe("g.yml", tiny_lora() + Keys{{"lr_groups", "[{name: a, modules: [q_proj, no_such], lr: 1e-4}]"}});
  for (const char* command : {"validate", "train"}) {
    const Ended e = dml({command, path});
    EXPECT_EQ(e.exit, 2) << command;
    EXPECT_THAT(e.err, testing::ContainsRegex("g.yml:[0-9]+:[0-9]+: 'lr_groups.0.modules': no trained parameter has "
                                              "'no_such' in its name\n"))
        << command;
  }
}

// A dataset of moderate size is checked to its last row; validate reports how much it checked.
TEST_F(Commands, ValidateReadsEveryRowOfModerateData) {
  alpaca("rows.jsonl", 3000);
  const std::string lora = recipe("good.yml", tiny_lora());
  EXPECT_THAT(dml({"validate", lora}).err, HasSubstr("3 000 rows were checked\n"));
  write("bad.jsonl", read_file(at("rows.jsonl")) + "{\"instruction\": 1}\n");
  const Ended bad = dml({"validate", lora, "--datasets.0.path", at("bad.jsonl")});
  EXPECT_EQ(bad.exit, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.jsonl:3001: "));
  // 40 MB of it: the rows that were not read are named.
  std::string row = R"({"instruction": "Hi", "output": ")" + std::string(20000, 'y') + "\"}\n", large;
  for (int i = 0; i < 2000; ++i) large += row;
  write("large.jsonl", large + "x\n");
  const Ended part =
      dml({"validate", lora, "--datasets.0.path", at("large.jsonl"), "--excess_length_strategy", "truncate"});
  EXPECT_EQ(part.exit, 0) << part.err;
  EXPECT_THAT(part.err,
              testing::ContainsRegex("large.jsonl: 1 [0-9]+ rows were checked, the rows behind them were not"));
}

TEST_F(Commands, ValidateRejectsRunsLargerThanMemory) {
  alpaca("rows.jsonl", 20);
  Keys keys = tiny_model();
  keys["model_config"] =
      "{model_type: llama, vocab_size: 2048, hidden_size: 16384, intermediate_size: 65536, num_hidden_layers: 200, "
      "num_attention_heads: 128, num_key_value_heads: 128, max_position_embeddings: 256, tie_word_embeddings: true, "
      "bos_token_id: 1, eos_token_id: 2}";
  const std::string path = recipe("large.yml", keys);
  const Ended valid = dml({"validate", path});
  EXPECT_EQ(valid.exit, 2);
  EXPECT_THAT(valid.err, HasSubstr("not enough memory: this run needs 206"));  // … GB: 8.6e11 parameters and AdamW
  EXPECT_THAT(valid.err, HasSubstr("not enough disk space: this run writes at least "));
  EXPECT_EQ(dml({"train", path}).exit, 2);
}

// The memory that validate reports equals the plan of the run.
TEST_F(Commands, ValidateMeasuresTheMemoryOfTheRun) {
  alpaca("rows.jsonl", 60);
  const auto bytes = [](const std::string& text) {
    char unit[8] = "";
    double number = 0;
    std::sscanf(text.c_str(), "%lf %7[A-Za-z]", &number, unit);
    return number * (unit[0] == 'G' ? 1e9 : unit[0] == 'M' ? 1e6 : unit[0] == 'k' || unit[0] == 'K' ? 1e3 : 1);
  };
  Keys larger = tiny_model();  // some megabytes, as memory is told in megabytes
  larger["model_config"] =
      "{model_type: llama, vocab_size: 2048, hidden_size: 256, intermediate_size: 1024, num_hidden_layers: 4, "
      "num_attention_heads: 8, num_key_value_heads: 4, max_position_embeddings: 256, tie_word_embeddings: true, "
      "bos_token_id: 1, eos_token_id: 2}";
  const Keys lora = larger + Keys{{"adapter", "lora"}, {"lora_r", "64"}, {"lora_target_linear", "true"}};
  const Keys kinds[] = {larger, lora, larger + Keys{{"optimizer", "adamw_8bit"}, {"micro_batch_size", "4"}},
                        lora + Keys{{"sample_packing", "true"}, {"gradient_checkpointing", "true"}}};
  int i = 0;
  for (const Keys& kind : kinds) {
    const std::string path = recipe(fmt::format("{}.yml", i++), kind);
    SCOPED_TRACE(read_file(path));
    const Ended valid = dml({"validate", path}), plan = dml({"plan", path});
    ASSERT_EQ(valid.exit, 0) << valid.err;
    ASSERT_EQ(plan.exit, 0) << plan.err;
    double planned = 0;
    for (const char* name : {"frozen weights (mapped)", "frozen weights (copied)", "trained weights", "gradients",
                             "optimizer state", "activations"})
      if (auto at = plan.out.find(fmt::format("\n{} ", name)); at != plan.out.npos)
        planned += bytes(plan.out.substr(at + 25));
    EXPECT_GT(planned, 10e6) << plan.out;
    const auto at = valid.err.find("training takes ");
    ASSERT_NE(at, valid.err.npos) << valid.err;
    EXPECT_NEAR(bytes(valid.err.substr(at + 15)), planned, 0.05 * planned + 2e6) << valid.err << plan.out;
  }
}

TEST_F(Commands, ValidateChecksTheRecipeAlone) {
  std::string good = recipe("good.yml", Keys{{"base_model", at("no/such/model")},
                                             {"datasets", "[{path: no/such/rows.jsonl, type: alpaca}]"}});
  Ended e = dml({"validate", good, "--recipe-only"});
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

// A read error is an error, not the end of the input.
TEST_F(Commands, TokenizeDoesNotMistakeAnErrorForTheEnd) {
  auto tokenize = [&](const std::string& input) { return dml({"tokenize", "--model", kTokenizer, "--input", input}); };
  EXPECT_EQ(tokenize(at("")).exit, 2);
  EXPECT_EQ(tokenize(at("nothing.jsonl")).exit, 2);
  const Ended large = tokenize(write("large.jsonl", "{\"text\": \"" + std::string(9 << 20, 'x') + "\"}\n"));
  EXPECT_EQ(large.exit, 2);
  EXPECT_THAT(large.err, HasSubstr("large.jsonl:1: the row has more than 8 MiB"));
  const Ended cut = tokenize(write("cut.jsonl", "{\"text\": \"a\"}\n{\"text"));
  EXPECT_EQ(cut.exit, 2);
  EXPECT_THAT(cut.err, HasSubstr("cut.jsonl:2: "));
  EXPECT_EQ(tokenize(write("mark.jsonl", "\xef\xbb\xbf{\"text\": \"a\"}\n")).exit, 0);
}

TEST_F(Commands, TokenizeSurvivesTheRoundTrip) {
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

TEST_F(Commands, PreprocessAndInspectShowWhatIsTrained) {
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
  expect_refused(dml({"infer", "--base-model", base_directory(), "--threads", "0", "--prompt", "a"}), 2, {"--threads"});
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

TEST_F(Commands, ServeRefusesAnAddressThatIsTaken) {
  const int taken = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  // A second program could listen as well if both said so.
  setsockopt(taken, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const Ended e = dml({"serve", "--base-model", base_directory(), "--port", port});
  close(taken);
  EXPECT_EQ(e.exit, 5);
  EXPECT_THAT(e.err, HasSubstr("cannot listen on 127.0.0.1:" + port + ": Address already in use"));
}

TEST_F(Commands, ScoreRefusesRowsWithoutALossOfTheirOwn) {
  write("pairs.jsonl", R"({"prompt": "a", "chosen": " b", "rejected": " c"})"
                       "\n");
  const std::string run =
      recipe("dpo.yml", tiny_lora() + Keys{{"learning_rate", "1e-3"},
                                           {"rl", "dpo"},
                                           {"datasets", "[{path: " + at("pairs.jsonl") + ", type: passthrough}]"}});
  const Ended e = dml({"score", run, "--adapter", "none"});
  EXPECT_EQ(e.exit, 2) << e.err;
  EXPECT_THAT(e.err, HasSubstr("dpo.yml:"));
  EXPECT_THAT(e.err, HasSubstr("the rows of this recipe are preferences"));
}

TEST_F(Commands, NearestNamesAreTold) {
  const auto said = [&](const Words& words) {
    const Ended e = dml(words);
    EXPECT_EQ(e.exit, 2) << e.err;
    return e.err;
  };
  const std::string run = recipe("lora.yml", tiny_lora() + Keys{{"learning_rate", "1e-3"}});
  const Ended misspelt =
      train(1, recipe("target.yml", tiny_lora() + Keys{{"learning_rate", "1e-3"},
                                                       {"max_steps", "1"},
                                                       {"lora_target_linear", ""},
                                                       {"lora_target_modules", "[q_porj, v_proj]"}}));
  EXPECT_EQ(misspelt.exit, 0) << misspelt.err;
  const std::string warning = "warning: target module 'q_porj' matches no module; did you mean 'q_proj'?";
  EXPECT_THAT(misspelt.err, HasSubstr(warning));
  EXPECT_EQ(misspelt.err.find(warning), misspelt.err.rfind(warning)) << misspelt.err;
  EXPECT_EQ(said({"help", "trian"}), "error: there is no command or key 'trian'; did you mean 'dml help train'?\n");
  EXPECT_THAT(said({"train", run, "--resume", "atuo"}), HasSubstr("no such checkpoint; did you mean 'auto'?"));
  write("grid.yml", "learning_rate: [1e-3, x]\nlora_r: [4, 8]\n");
  const std::string grid = said({"sweep", run, "--grid", at("grid.yml")});
  EXPECT_THAT(grid, HasSubstr("error: " + at("grid.yml") + ":1:23: 'learning_rate' must be"));
  EXPECT_EQ(grid.find(":1:23:"), grid.rfind(":1:23:")) << grid;
  // A missing file is told once, and not what follows from it.
  const Words lost{"--datasets.0.path", at("lorra.yml"), "--val_set_size", "0.5"};
  for (const char* command : {"validate", "train"}) {
    Words words{command, run};
    words.insert(words.end(), lost.begin(), lost.end());
    const std::string text = said(words);
    EXPECT_THAT(text, HasSubstr("; did you mean 'lora.yml'?")) << command;
    EXPECT_EQ(text.find("no such file"), text.rfind("no such file")) << text;
    EXPECT_EQ(text.find("left"), text.npos) << text;
  }
}

TEST_F(Commands, CommandsWithoutTrainingNeedNoLearningRate) {
  train_adapter();
  std::string r = recipe("still.yml", tiny_lora() + Keys{{"learning_rate", ""}});
  out_of({"infer", r, "--greedy", "--max-new-tokens", "3", "--prompt", "Tell me."});
  out_of({"evaluate", r});
  out_of({"merge", r, "--output", at("merged")});
  Ended e = dml({"train", r});
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err, HasSubstr("learning_rate"));
  std::string empty = recipe("empty.yml", tiny_lora() + Keys{{"datasets", ""}});
  expect_refused(dml({"evaluate", empty}), 2, {"datasets"});
}

TEST_F(Commands, EvaluateTakesSeveralAdapters) {
  train_adapter();
  std::string second = recipe("second.yml", tiny_lora() + Keys{{"output_dir", at("second")}, {"max_steps", "2"}});
  ASSERT_EQ(train(1, second).exit, 0);
  Words both{"evaluate", at("lora.yml"), "--json", "--adapter", at("out"), "--adapter", at("second")};
  EXPECT_EQ(json_lines(write("both.jsonl", out_of(both))).size(), 3u);
  EXPECT_EQ(loss_of(both, 1), loss_of({"evaluate", at("lora.yml"), "--json"}, 1));
  EXPECT_EQ(loss_of(both, 2), loss_of({"evaluate", second, "--json"}, 1));
  const Words alone{"evaluate", at("lora.yml"), "--json", "--adapter", "none"};
  EXPECT_EQ(loss_of(alone, 0), loss_of(both, 0));
  EXPECT_EQ(std::ranges::count(out_of(alone), '\n'), 1);
  EXPECT_NE(loss_of(both, 1), loss_of(both, 2));
}

TEST_F(Commands, EvaluateComparesAWholeModelWithItsBase) {
  const std::string r =
      recipe("whole.yml", Keys{{"base_model", base_directory()}, {"max_steps", "2"}, {"output_dir", at("whole")}});
  ASSERT_EQ(train(1, r).exit, 0);
  const Words trained{"evaluate", r, "--json"}, base{"evaluate", r, "--json", "--base-model", base_directory()};
  EXPECT_EQ(json_lines(write("both.jsonl", out_of(trained))).size(), 2u);
  EXPECT_NE(loss_of(trained, 0), loss_of(trained, 1));
  EXPECT_EQ(json_lines(write("one.jsonl", out_of(base))).size(), 1u);
  EXPECT_EQ(loss_of(base, 0), loss_of(trained, 0));
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

TEST_F(Commands, EvaluateMatchesTheLastEvaluationOfTraining) {
  train_adapter();
  Json last = json_lines(at("out/metrics.jsonl")).back();
  ASSERT_EQ(last.at("event"), "eval");
  EXPECT_EQ(loss_of({"evaluate", at("lora.yml"), "--json"}, 1), last.at("loss").get<double>());
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  Ended two = run(on_ranks(2, {"evaluate", at("lora.yml"), "--json"}));
  EXPECT_EQ(two.out, out_of({"evaluate", at("lora.yml"), "--json"}));
}

TEST_F(Commands, RefuseAnAdapterWithNan) {
  train_adapter();
  std::string bytes = read_file(at("out/adapter_model.safetensors"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - sizeof nan, &nan, sizeof nan);
  write("out/adapter_model.safetensors", bytes);
  for (const Words& words : {Words{"infer", at("lora.yml"), "--prompt", "x"}, Words{"evaluate", at("lora.yml")},
                             Words{"merge", at("lora.yml"), "--output", at("merged")}})
    expect_refused(dml(words), 2, {"is NaN or infinite at [", "the adapter is damaged"});
}

TEST_F(Commands, AnUnknownInstructionSetIsRefused) {
  for (const Words& words : {Words{"doctor"}, Words{"infer", "--base-model", base_directory(), "--prompt", "x"}})
    expect_refused(dml(words, {.environment = {"DML_ISA=AVX2"}}), 2,
                   {"DML_ISA: 'AVX2' is not an instruction set of this machine; choose from", "portable"});
  EXPECT_EQ(dml({"infer", "--base-model", base_directory(), "--prompt", "x"}, {.environment = {"DML_ISA="}}).exit, 0);
}

TEST_F(Commands, ThatRunInOneProcessRefuseRanks) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  const Ended e = run(on_ranks(2, {"infer", at("lora.yml"), "--prompt", "x"}));
  EXPECT_EQ(e.exit, 2) << e.err;
  EXPECT_EQ(e.out, "");
  const std::string says = "dml infer runs in one process, but 2 ranks were started";
  EXPECT_THAT(e.err, HasSubstr(says));
  EXPECT_EQ(e.err.find(says), e.err.rfind(says)) << "only rank 0 speaks";
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
