// `dml serve` with real clients: the scripts of tests/clients, skipped if their requirements are missing.
#include <gmock/gmock.h>

#include <cstdlib>
#include <regex>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;

const std::string kClients = DML_SOURCE_DIR "/tests/clients/";

// Debian's, which may have modules that another one in the way lacks.
std::string python() { return file_exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3"; }

class Clients : public Workshop {
 protected:
  // A base with room for long prompts, and adapters on it, each trained on rows of its own.
  std::string base() const {
    if (file_exists(at("base/config.json"))) return at("base");
    Keys keys = tiny_model() + Keys{{"output_dir", at("base")}};
    keys["model_config"] = std::regex_replace(keys["model_config"], std::regex("max_position_embeddings: 256"),
                                              "max_position_embeddings: 2048");
    const Ended e = train(1, recipe("base.yml", keys));
    EXPECT_EQ(e.exit, 0) << e.err;
    return at("base");
  }
  Words adapters() const {
    Words words;
    for (int i = 0; i < 3; ++i) {
      const std::string name = fmt::format("adapter{}", i);
      alpaca("rows.jsonl", 44, 100 * i);
      const Ended e = train(1, recipe(name + ".yml", Keys{{"base_model", base()},
                                                          {"adapter", "lora"},
                                                          {"lora_r", fmt::format("{}", 4 << i)},
                                                          {"lora_alpha", "16"},
                                                          {"lora_target_linear", "true"},
                                                          {"learning_rate", "3e-2"},
                                                          {"output_dir", at(name)}}));
      EXPECT_EQ(e.exit, 0) << e.err;
      words.insert(words.end(), {"--adapter", name + "=" + at(name)});
    }
    return words;
  }
  // A script of Python beside a server that it starts.
  void expect_holds(const std::string& script, Words words, const std::string& says, double timeout = kPatience) const {
    if (!has_program(python())) GTEST_SKIP() << "python3 is not there";
    Words all{python(), kClients + script, "--dml", dml_path(), "--base-model", base()};
    all.insert(all.end(), words.begin(), words.end());
    Surroundings around;
    around.timeout = timeout;
    const Ended e = run(all, around);
    EXPECT_EQ(e.exit, 0) << e.out << e.err;
    if (e.out.find("skipped:") == 0) GTEST_SKIP() << e.out;
    EXPECT_THAT(e.out, HasSubstr(says)) << e.err;
  }
};

// DML_SOAK_SECONDS shortens the hour.
std::string soak_seconds() {
  const char* given = std::getenv("DML_SOAK_SECONDS");
  return given ? given : "3600";
}

TEST_F(Clients, MalformedRequestsAndDisconnectsAffectNoOtherClient) {
  expect_holds("abuse.py", {"--requests", "120", "--slow", "0", "--leaving", "16"}, "abuse holds");
}

TEST_F(Clients, LongAbuseLeaksNoMemory) {
  if (!long_form()) GTEST_SKIP() << "DML_LONG=1 runs it";
  expect_holds("abuse.py", {"--requests", "10000", "--slow", "200", "--leaving", "1000"}, "abuse holds", 3000);
}

TEST_F(Clients, EveryFieldWorksAsDocumented) { expect_holds("contract.py", {}, "the contract holds"); }

TEST_F(Clients, MixedLoadOverAdaptersGetsTheAnswersOfEachAlone) {
  Words words = adapters();
  words.insert(words.end(), {"--seconds", "3", "--kinds", "60"});
  expect_holds("soak.py", words, ", 4 models");
}

TEST_F(Clients, LongSoakHasNoWrongAnswer) {
  if (!long_form()) GTEST_SKIP() << "DML_LONG=1 runs it";
  Words words = adapters();
  words.insert(words.end(), {"--seconds", soak_seconds()});
  expect_holds("soak.py", words, "soak holds", 4500);
}

TEST_F(Clients, SampledAnswersValidateAgainstTheirSchemas) {
  expect_holds("validate.py", {"--answers", "200"}, "all of 200 answers are valid");
}

TEST_F(Clients, TheOfficialOpenAiClientWorks) {
  if (!has_program("node")) GTEST_SKIP() << "node is not there";
  const char* folder = std::getenv("DML_NODE_MODULES");  // a folder in which `npm install openai` was run
  Words words{python(), kClients + "openai.py", "--dml", dml_path(), "--base-model", base()};
  if (folder) words.insert(words.end(), {"--modules", folder});
  const Ended e = run(words);
  EXPECT_EQ(e.exit, 0) << e.out << e.err;
  if (e.out.find("skipped:") == 0) GTEST_SKIP() << e.out;
  EXPECT_THAT(e.out, HasSubstr("12 checks hold"));
}

TEST_F(Clients, TheChatPageWorksInABrowser) { expect_holds("chat_page.py", adapters(), "the chat page holds"); }

}  // namespace
}  // namespace dml::e2e
