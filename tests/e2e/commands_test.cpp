// Contracts of all commands: exit codes, output on stdout, and consistency between commands.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "core/files.h"
#include "e2e/commands.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;

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
  const std::string first = "{path: a.jsonl, type: alpaca}",
                    two = recipe("two.yml",
                                 tiny_lora() + Keys{{"datasets", "[" + first + ", {path: b.jsonl, type: alpaca}]"}}),
                    renamed =
                        recipe("renamed.yml",
                               tiny_lora() + Keys{{"datasets", "[" + first + ", {path: c.jsonl, type: alpaca}]"}}),
                    alone = recipe("alone.yml", tiny_lora() + Keys{{"datasets", "[" + first + "]"}});
  EXPECT_EQ(out_of({"diff", two, renamed}), "datasets.1.path: b.jsonl -> c.jsonl\n");
  EXPECT_THAT(out_of({"diff", alone, two}),
              testing::StartsWith("datasets.1: (unset) -> {\"path\":\"b.jsonl\",\"type\":\"alpaca\""));
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

TEST_F(Commands, ServeRefusesOriginsAndKeysThatNoClientCanSend) {
  for (const char* origin : {"example.com", "https://", "https://example.com/page"}) {
    const Ended e = dml({"serve", "--base-model", base_directory(), "--cors-origin", origin});
    EXPECT_EQ(e.exit, 2) << origin;
    EXPECT_THAT(e.err, HasSubstr(fmt::format("--cors-origin: '{}' is not an origin", origin)));
  }
  const std::string keys = write("keys", "first  # of Alice\nsecond third\n");
  std::filesystem::permissions(keys, std::filesystem::perms::owner_read);
  const Ended e = dml({"serve", "--base-model", base_directory(), "--api-key-file", keys});
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err, HasSubstr(keys + ":2: expected one key per line"));
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
