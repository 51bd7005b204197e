// Evaluations of one's own: alone, on several ranks, and during training.
#include <filesystem>
#include <map>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

class Evals : public Workshop {
 protected:
  void SetUp() override {
    alpaca("rows.jsonl", 40);
    std::string questions, choices, texts;
    for (int i = 0; i < 19; ++i) {
      questions += fmt::format(R"({{"prompt": "Name a thing of number {}", "expected": "a"}})", i) + "\n";
      choices +=
          fmt::format(
              R"({{"prompt": "A thing of number {} is", "choices": [" red.", " large and blue.", " here."], "answer": {}}})",
              i, i % 3) +
          "\n";
      texts += fmt::format(R"({{"text": "This is a text about number {}."}})", i) + "\n";
    }
    write("questions.jsonl", questions);
    write("choices.jsonl", choices);
    write("texts.jsonl", texts);
    write("evals.yml", evals(""));
  }
  std::string evals(const std::string& more) const {
    return fmt::format(
        "evals:\n  - {{name: says, path: {}, raw: true, max_new_tokens: 8, checks: [contains, {{regex: '[a-z]'}}]{}}}\n"
        "  - {{name: picks, path: {}, raw: true, checks: [choice]}}\n  - {{name: texts, path: {}, checks: "
        "[perplexity]}}\n",
        at("questions.jsonl"), more, at("choices.jsonl"), at("texts.jsonl"));
  }
  Json models(const Ended& e) const {
    EXPECT_EQ(e.exit, 0) << e.err;
    return e.exit == 0 ? Json::parse(e.out).at("models") : Json();
  }
};

TEST_F(Evals, GiveTheSameNumbersOnAnyNumberOfRanks) {
  const Words words{"evaluate", "--base-model", base_directory(), "--evals", at("evals.yml"), "--json"};
  const Json one = models(dml(words));
  ASSERT_EQ(one.size(), 1u);
  const Json& evals = one[0]["evals"];
  EXPECT_EQ(one[0]["name"], "base");
  EXPECT_EQ(evals["says"]["n"], 19);
  for (const char* metric : {"contains", "regex"})
    EXPECT_TRUE(evals["says"][metric] >= 0 && evals["says"][metric] <= 1) << metric;
  EXPECT_GT(evals["picks"]["acc"], 0.1);
  EXPECT_GT(evals["texts"]["perplexity"], 1);
  if (!has_mpirun()) return;
  for (int ranks : {2, 3}) {
    const Ended e = run(on_ranks(ranks, words));
    EXPECT_EQ(e.exit, 0) << e.err;
    EXPECT_EQ(Json::parse(e.out).at("models"), one) << ranks;
  }
}

TEST_F(Evals, OfAGgufFileAreThoseOfItsFolder) {
  const Surroundings around{.environment = {"XDG_CACHE_HOME=" + at("cache")}};
  const Words convert{"convert", base_directory(), "--format", "gguf", "--dtype", "f32", "--output", at("m.gguf")};
  ASSERT_EQ(dml(convert).exit, 0);
  std::vector<Json> found;
  for (const std::string& model : {base_directory(), at("m.gguf")})
    found.push_back(
        models(dml({"evaluate", "--base-model", model, "--evals", at("evals.yml"), "--json"}, around)).at(0)["evals"]);
  EXPECT_EQ(found[0], found[1]);
}

// Each adapter is asked in its own format, whatever is compared with it.
TEST_F(Evals, OfAnAdapterStopAtItsOwnTokens) {
  const std::string trained = recipe("r.yml", tiny_lora() + Keys{{"max_steps", "1"}});
  ASSERT_EQ(train(1, trained).exit, 0);
  std::filesystem::copy(at("out"), at("silent"), std::filesystem::copy_options::recursive);
  Json all = Json::array();
  for (int token = 0; token < 2048; ++token) all.push_back(token);
  write("silent/generation_config.json", dump(Json{{"eos_token_id", all}}));
  for (const Words& order : {Words{"out", "silent"}, Words{"silent", "out"}}) {
    Words words{"evaluate", "--base-model", base_directory(), "--evals", at("evals.yml"), "--json"};
    for (const std::string& adapter : order) words.insert(words.end(), {"--adapter", at(adapter)});
    const Json found = models(dml(words));
    ASSERT_EQ(found.size(), 3u);
    for (std::size_t i = 0; i < 2; ++i) {
      const Json& says = found[i + 1]["evals"]["says"];
      EXPECT_EQ(says["regex"] == 0, order[i] == "silent") << dump(found[i + 1]);
    }
  }
}

// The tasks that ship, with their sample rows, on a small model.
TEST_F(Evals, TasksOfTheHarnessRun) {
  const std::map<std::string, std::string> metrics = {{"arc_easy", "acc_norm"},  {"arc_challenge", "acc"},
                                                      {"hellaswag", "acc_norm"}, {"piqa", "acc"},
                                                      {"sciq", "acc"},           {"openbookqa", "acc_norm"},
                                                      {"boolq", "acc"},          {"lambada_openai", "perplexity"},
                                                      {"mmlu", "acc"},           {"wikitext", "word_perplexity"}};
  std::string yaml = "evals:\n";
  for (const auto& [name, metric] : metrics)
    yaml += fmt::format("  - {{name: {}, task: {}/recipes/evals/{}.yml}}\n", name, DML_SOURCE_DIR, name);
  write("harness.yml", yaml);
  const Words words{"evaluate", "--base-model", base_directory(), "--evals", at("harness.yml"), "--json"};
  const Json one = models(dml(words));
  ASSERT_EQ(one.size(), 1u);
  for (const auto& [name, metric] : metrics) {
    const Json& found = one[0]["evals"][name];
    EXPECT_GE(found["n"], 2) << name;
    EXPECT_TRUE(found.contains(metric) && found[metric].is_number()) << name << " " << found;
  }
  EXPECT_GT(one[0]["evals"]["lambada_openai"]["perplexity"], 1);
  if (has_mpirun()) {
    const Ended two = run(on_ranks(2, words));
    ASSERT_EQ(two.exit, 0) << two.err;
    EXPECT_EQ(Json::parse(two.out).at("models"), one);
  }
  // The file of a task by itself.
  const Json alone = models(dml(
      {"evaluate", "--base-model", base_directory(), "--evals", DML_SOURCE_DIR "/recipes/evals/boolq.yml", "--json"}));
  EXPECT_EQ(alone[0]["evals"]["boolq"], one[0]["evals"]["boolq"]);
}

TEST_F(Evals, ExitWithTheirOwnCodeBelowALimit) {
  write("limits.yml", evals(", fail_below: {regex: 1.5}"));
  const Ended e = dml({"evaluate", "--base-model", base_directory(), "--evals", at("limits.yml")});
  EXPECT_EQ(e.exit, 3) << e.err;
  EXPECT_NE(e.err.find("says regex is"), std::string::npos) << e.err;
  EXPECT_NE(e.out.find("| says | 19 | contains |"), std::string::npos) << e.out;
}

TEST_F(Evals, AreRejectedBeforeTheRunWithEveryError) {
  write("bad.jsonl", "{\"prompt\": \"x\"}\n{\"prompt\": 3, \"expected\": \"y\"}\nno json\n");
  write("bad.yml", fmt::format("evals:\n  - {{name: a, path: {}, checks: [contains, spells]}}\n  - {{name: b, prompts: "
                               "[{{prompt: x}}], checks: [{{regex: '(['}}, {{command: no_such_program_here}}]}}\n",
                               at("questions.jsonl")));
  const Ended e = dml({"evaluate", "--base-model", base_directory(), "--evals", at("bad.yml")});
  EXPECT_EQ(e.exit, 2);
  for (const char* says :
       {"a: unknown check 'spells'", "b: check 'regex'", "b: check 'command'", "no_such_program_here"})
    EXPECT_NE(e.err.find(says), std::string::npos) << e.err;
  write("rows.yml", fmt::format("evals:\n  - {{name: a, path: {}, checks: [contains]}}\n", at("bad.jsonl")));
  const Ended rows = dml({"evaluate", "--base-model", base_directory(), "--evals", at("rows.yml")});
  EXPECT_EQ(rows.exit, 2);
  EXPECT_NE(rows.err.find("bad.jsonl:3"), std::string::npos) << rows.err;

  std::string words;
  for (int i = 0; i < 3000; ++i) words += "word ";
  const auto refused = [&](const std::string& yaml, const char* says) {
    write("refused.yml", yaml);
    const Ended one = dml({"evaluate", "--base-model", base_directory(), "--evals", at("refused.yml")});
    EXPECT_EQ(one.exit, 2) << one.err;
    EXPECT_NE(one.err.find(says), std::string::npos) << one.err;
  };
  refused(fmt::format(
              "evals:\n  - {{name: long, raw: true, prompts: [{{prompt: '{}', expected: x}}], checks: [contains]}}\n",
              words),
          "which leaves no room for an answer");
  const std::string slips =
      "evals:\n  - name: a\n    prompts:\n      - {prompt: x, choices: [y, z], answer: 2}\n    checks:\n      - "
      "choice\n"
      "      - {length: -1}\n      - {regex: '('}\n      - spells\n    fail_below:\n      acd: 1\n";
  for (const char* line :
       {"refused.yml:7:9: evals: a: check 'length' takes a number of characters above 0, got -1\n",
        "refused.yml:8:9: evals: a: check 'regex': regular expression '('",
        "refused.yml:9:9: evals: a: unknown check 'spells'", "refused.yml:4:9: evals: a: check 'choice' needs 'answer'",
        "refused.yml:11:7: evals: a: fail_below: there is no metric 'acd'"})
    refused(slips, line);
  refused("evals:\n  - {name: a, prompts: [{prompt: x}], checks: [{regex: a, nmae: b}]}\n",
          "refused.yml:2:48: evals: a: 'regex' has no option 'nmae'; did you mean 'name'?");
  refused("evals:\n  - {name: a, prompts: [{prompt: x}], checks: [{json_schema: 3}]}\n", "json_schema");
  refused("evals:\n  - {name: a, prompts: [{prompt: x}], checks: [{json_schema: {type: strin}}]}\n", "strin");
  refused("evals:\n  - {name: a, prompts: [{prompt: x}]}\n", "'evals.0.checks' is missing");
  refused(
      "task: t\noutput_type: generate_until\ndataset_path: json\ndoc_to_text: !function utils.f\ndoc_to_target: a\n",
      "refused.yml:4:14: 'doc_to_text' is a Python function");
  refused(fmt::format(
              "task: t\noutput_type: generate_until\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {}}}}}\n"
              "test_split: test\ndoc_to_text: '{{{{ question }}}}'\ndoc_to_target: prompt\n",
              at("questions.jsonl")),
          "'question' is undefined");
}

TEST_F(Evals, NameTheirChecks) {
  write("named.yml",
        "evals:\n  - name: a\n    raw: true\n    max_new_tokens: 1\n    prompts: [{prompt: x}]\n"
        "    checks: [{regex: '.', name: any}, {regex: '^$', name: none}, {command: 'false'}]\n");
  const Ended e = dml({"evaluate", "--base-model", base_directory(), "--evals", at("named.yml"), "--json"});
  ASSERT_EQ(e.exit, 0) << e.err;
  const Json values = Json::parse(e.out)["models"][0]["evals"]["a"];
  EXPECT_TRUE(values.contains("any") && values.contains("none")) << values.dump();
  EXPECT_FALSE(values.contains("command")) << "nothing was measured";
  EXPECT_EQ(values["command_failed"], 1);
}

// Their metrics choose the best model, and their answers are samples; the judge fails, the run does not.
TEST_F(Evals, RunDuringTraining) {
  write("judge.sh", "read line; echo '{\"pass\": true, \"score\": 0.5}'; exit 3\n");
  const std::string list = fmt::format(
      "[{{name: says, path: {}, max_new_tokens: 4, checks: [contains, {{command: [sh, {}], timeout: 250, name: "
      "judged}}]}}, {{name: texts, path: {}, every: 3, checks: [perplexity]}}]",
      at("questions.jsonl"), at("judge.sh"), at("texts.jsonl"));
  const Keys keys = tiny_lora() + Keys{{"evals", list},
                                       {"max_steps", "6"},
                                       {"eval_steps", "2"},
                                       {"save_steps", "2"},
                                       {"val_set_size", ""},
                                       {"metric_for_best_model", "eval_texts_loss"},
                                       {"load_best_model_at_end", "true"},
                                       {"output_dir", at("out")}};
  const Ended e = train(1, recipe("r.yml", keys));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_NE(e.err.find("judge"), std::string::npos) << e.err;
  EXPECT_NE(e.err.find(", 4 evaluations,"), std::string::npos) << "after steps 2, 3, 4 and 6\n" << e.err;
  int says = 0, texts = 0, samples = 0;
  for (const Json& line : json_lines(at("out/metrics.jsonl"))) {
    if (line.value("event", "") == "sample") ++samples;
    if (line.value("event", "") != "eval") continue;
    says += line.contains("eval_says_contains") && line.contains("eval_says_judged_failed");
    texts += line.contains("eval_texts_perplexity");
    if (line.contains("eval_texts_perplexity")) {
      EXPECT_EQ(line["step"].get<int>() % 3, 0);
    }
  }
  const Ended idle = train(1, recipe("idle.yml", keys + Keys{{"max_steps", "2"},
                                                             {"save_steps", ""},
                                                             {"output_dir", at("idle")},
                                                             {"load_best_model_at_end", ""}}));
  EXPECT_NE(idle.err.find("'texts' is measured only before the first step: 'every' is 3, and the run has only 2 steps"),
            std::string::npos)
      << idle.err;
  EXPECT_EQ(says, 4) << "before training, and after steps 2, 4 and 6";
  EXPECT_EQ(texts, 3) << "before training, and after steps 3 and 6";
  EXPECT_GT(samples, 0);
}

}  // namespace
}  // namespace dml::e2e
