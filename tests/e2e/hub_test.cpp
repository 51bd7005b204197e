// The Hub from the command line, against a mock on the loopback: dml fetch, dml push, recipes that name missing files,
// and results that are pushed during a run.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>

#include "core/files.h"
#include "e2e/workshop.h"
#include "hub/mock_hub.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_tools::MockHub;
using testing_tools::varied_bytes;

class HubCommands : public Workshop {
 protected:
  HubCommands() {
    hub_.add("models/org/model/config.json", R"({"model_type": "llama"})");
    hub_.add("models/org/model/model.safetensors", weights_);
  }
  Surroundings around(const std::string& token = "secret-token") const {
    return {.environment = {"HF_ENDPOINT=" + hub_.endpoint(), "HF_TOKEN=" + token, "HF_HUB_DOWNLOAD_TIMEOUT=1000"}};
  }
  Ended fetch(Words more = {}) const {
    more.insert(more.begin(), {"fetch", "org/model"});
    return dml(more, around());
  }
  // Every file as the Hub has it, and no other in the cache.
  void expect_whole() const {
    const std::string repository = hub_.cache("models--org--model/");
    const std::string snapshot = repository + "snapshots/" + read_file(repository + "refs/main") + "/";
    EXPECT_EQ(read_file(snapshot + "model.safetensors"), hub_.content("models/org/model/model.safetensors"));
    EXPECT_EQ(read_file(snapshot + "config.json"), hub_.content("models/org/model/config.json"));
    EXPECT_EQ(std::distance(fs::directory_iterator(repository + "blobs"), fs::directory_iterator()), 2);
  }
  // How often each large file, or part of one, was sent.
  std::map<std::string, int> sent() const {
    std::map<std::string, int> count;
    std::istringstream lines(hub_.requests());
    for (std::string line; std::getline(lines, line);)
      if (line.find(" GET /cdn/") != line.npos) ++count[line];
    return count;
  }
  void add_folder(const std::string& repository, const std::string& folder) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file())
        hub_.add(repository + "/" + entry.path().filename().string(), read_file(entry.path()));
  }

  MockHub hub_;
  const std::string weights_ = varied_bytes(300'000);
};

TEST_F(HubCommands, FetchFillsTheCacheAndPrintsTheFolder) {
  const Ended listed = fetch({"--dry-run"});
  EXPECT_THAT(listed.out, AllOf(HasSubstr("300 kB  model.safetensors"), HasSubstr("300 kB of it not in the cache")));
  EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main")));
  const Ended first = fetch();
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("models--org--model/snapshots/"));
  expect_whole();
  hub_.forget_requests();
  EXPECT_EQ(fetch().out, first.out);
  EXPECT_THAT(hub_.requests(), Not(HasSubstr("resolve")));
}

TEST_F(HubCommands, OfTwoProcessesOneDownloads) {
  hub_.set_faults({{"halt", {1, 1000}}});  // it begins, and the server falls silent
  const Words words{dml_path(), "fetch", "org/model"};
  Child first(words, around());
  ASSERT_TRUE(soon([&] { return sent().size() == 1; }));
  Child second(words, around());
  ASSERT_TRUE(soon([&] { return second.has_said("waiting for the process that downloads it"); }));
  hub_.hang_up();
  const Ended one = first.wait(), two = second.wait();
  EXPECT_EQ(one.exit, 0) << one.err;
  EXPECT_EQ(two.exit, 0) << two.err;
  EXPECT_EQ(one.out, two.out);
  for (const auto& [request, times] : sent()) EXPECT_EQ(times, 1) << request;
  expect_whole();
}

TEST_F(HubCommands, AKilledFetchIsContinued) {
  hub_.set_faults({{"halt", {1, 1000}}});
  Child child({dml_path(), "fetch", "org/model"}, around());
  ASSERT_TRUE(soon([&] { return sent().size() == 1; }));
  child.signal(SIGKILL);
  child.wait();
  EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main")));
  EXPECT_EQ(fetch().exit, 0);
  expect_whole();
}

TEST_F(HubCommands, FailuresAreReportedInOneLine) {
  hub_.set_faults({{"429", {2, 0}}});
  EXPECT_EQ(fetch().exit, 0);
  expect_whole();
  fs::remove_all(hub_.cache());
  hub_.set_faults({{"429", {99, 0}}});
  expect_refused(fetch(), 5, {"model org/model", "limits the number of requests (429)"});
  hub_.set_faults({{"wrong bytes", {99}}});
  expect_refused(fetch(), 5, {"the download has the digest", "it was discarded"});
  hub_.set_faults({});
  hub_.add_made("models/org/model/model.safetensors", 1'000'000'000'000'000, std::string(64, 'a'), {});
  expect_refused(fetch(), 2, {"1000000.0 GB are needed", "HF_HOME or HF_HUB_CACHE names another folder"});
  expect_refused(dml({"fetch", "org/model@v1", "--revision", "v2"}, around()), 2,
                 {"'org/model@v1' names a revision already; leave out --revision"});
  expect_refused(dml({"fetch", "org/modle"}, around()), 2, {"model org/modle: not found on http://127.0.0.1"});
  EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main")));
}

TEST_F(HubCommands, PushSendsAResultAndNamesWhatIsMissing) {
  fs::create_directory(at("lora"));
  write("lora/adapter_config.json", "{}");
  write("lora/adapter_model.safetensors", weights_);
  const Ended pushed = dml({"push", at("lora"), "org/result", "--private"}, around());
  EXPECT_EQ(pushed.exit, 0) << pushed.err;
  EXPECT_THAT(pushed.out, HasSubstr("http://hub/commit/"));
  EXPECT_EQ(hub_.content("models/org/result/adapter_model.safetensors"), weights_);
  EXPECT_EQ(hub_.created()["private"], true);
  expect_refused(dml({"push", at("lora"), "org/result"}, around("wrong")), 2,
                 {"model org/result", "the token may not see it"});
  expect_refused(dml({"push", at("none"), "org/result"}, around()), 2, {"no such directory"});
  fs::create_directory(at("source"));
  write("source/README.md", "# Code\n");
  expect_refused(dml({"push", at("source"), "org/code"}, around()), 2, {"it has no weights, adapter or tokenizer"});
}

// Of a dataset, the files that the recipe reads: of a configuration of its card, of a split, or its data_files.
TEST_F(HubCommands, OfADatasetOnlyWhatIsReadIsDownloaded) {
  const std::string rows = read_file(at("rows.jsonl"));
  hub_.add("datasets/org/rows/README.md",
           "---\nconfigs:\n- config_name: en\n  default: true\n  data_files:\n"
           "  - split: train\n    path: en/train-*\n  - split: test\n    path: en/test*\n"
           "- config_name: de\n  data_dir: de\n---\n");
  std::string blanks;  // each has a content of its own
  for (const char* name :
       {"en/train-0.jsonl", "en/train-1.jsonl", "en/test.jsonl", "de/train.jsonl", "de/test.jsonl", "extra.jsonl"})
    hub_.add(std::string("datasets/org/rows/") + name, rows + (blanks += '\n'));
  auto preprocess = [&](const std::string& more, const std::string& variable = "x=") {
    hub_.forget_requests();
    Surroundings here = around();
    here.environment.push_back(variable);
    const Keys keys = tiny_lora() + Keys{{"datasets", "[{path: org/rows, type: alpaca" + more + "}]"}};
    return dml({"preprocess", recipe("a.yml", keys)}, here);
  };
  auto asked = [&](const std::string& file) { return hub_.requests().find(file) != std::string::npos; };
  const Ended unknown = preprocess(", name: fr");
  expect_refused(unknown, 2, {"a.yml:", "its card has no configuration 'fr'"});
  const Ended first = preprocess("");
  ASSERT_EQ(first.exit, 0) << first.err;
  EXPECT_TRUE(asked("en/train-0.jsonl") && asked("en/train-1.jsonl")) << hub_.requests();
  EXPECT_FALSE(asked("en/test.jsonl") || asked("de/") || asked("extra.jsonl")) << hub_.requests();
  EXPECT_EQ(preprocess("").exit, 0);
  EXPECT_EQ(hub_.requests(), "");  // all of it is there
  expect_refused(preprocess(", name: de", "HF_HUB_OFFLINE=1"), 2, {"org--rows"});
  EXPECT_EQ(preprocess(", name: de").exit, 0);
  EXPECT_TRUE(asked("de/train.jsonl") && !asked("de/test.jsonl")) << hub_.requests();
  EXPECT_EQ(preprocess(", split: test").exit, 0);
  EXPECT_TRUE(asked("en/test.jsonl") && !asked("en/train-0.jsonl")) << hub_.requests();
  EXPECT_EQ(preprocess(", split: train+test").exit, 0);
  EXPECT_EQ(hub_.requests(), "");  // both are there
  expect_refused(preprocess(", split: 'train[:1]+test'"), 2, {"slices cannot be added up"});
  EXPECT_EQ(preprocess(", data_files: ['ext*.jsonl']").exit, 0);
  EXPECT_TRUE(asked("extra.jsonl")) << hub_.requests();
}

// The ranks of a run download once; what it saves is pushed as hub_strategy says.
TEST_F(HubCommands, ARunDownloadsAndPushesItsModels) {
  add_folder("models/org/base", base_directory());
  hub_.add("datasets/org/rows/rows.jsonl", read_file(at("rows.jsonl")));
  const Keys keys = tiny_lora() + Keys{{"base_model", "org/base"},
                                       {"datasets", "[{path: org/rows, type: alpaca}]"},
                                       {"max_steps", "4"},
                                       {"save_steps", "2"},
                                       {"hub_model_id", "org/result"},
                                       {"hub_strategy", "checkpoint"}};
  const Ended run = train(has_mpirun() ? 2 : 1, recipe("a.yml", keys), {}, around());
  ASSERT_EQ(run.exit, 0) << run.err;
  for (const auto& [request, times] : sent()) EXPECT_EQ(times, 1) << request;
  for (const char* name : {"adapter_model.safetensors", "last-checkpoint/adapter_model.safetensors"})
    EXPECT_EQ(hub_.content(std::string("models/org/result/") + name), read_file(at("out/adapter_model.safetensors")))
        << name;
  EXPECT_TRUE(hub_.has("models/org/result/README.md"));
  EXPECT_TRUE(hub_.has("models/org/result/last-checkpoint/manifest.json"));
  EXPECT_FALSE(hub_.has("models/org/result/metrics.jsonl"));
}

// A recipe that names a model and rows of the Hub, and commands with and without the network.
class HubRecipes : public HubCommands {
 protected:
  HubRecipes() {
    add_folder("models/org/base", base_directory());
    hub_.add("datasets/org/rows/rows.jsonl", read_file(at("rows.jsonl")));
    recipe("a.yml", tiny_lora() + Keys{{"base_model", "org/base"},
                                       {"datasets", "[{path: org/rows, type: alpaca, split: train}]"},
                                       {"max_steps", "2"}});
  }
  Ended run(const Words& words) const { return dml(words, around()); }
  Ended run_offline(const Words& words) const {
    Surroundings here = around();
    here.environment.emplace_back("HF_HUB_OFFLINE=1");
    return dml(words, here);
  }
  void expect_refused_offline(const Words& words, const std::string& said) const {
    const Ended e = run_offline(words);
    EXPECT_EQ(e.exit, 2) << words[0];
    EXPECT_THAT(e.err, AllOf(HasSubstr(said), HasSubstr("To download it, unset HF_HUB_OFFLINE and run: dml fetch ")));
  }
  void start_afresh() {
    for (const std::string& folder : {hub_.cache(), at("prepared"), at("out")}) fs::remove_all(folder);
    hub_.forget_requests();
  }
};

TEST_F(HubRecipes, RunFromAnEmptyCache) {
  const std::string path = at("a.yml");
  for (const Words& words : {Words{"train", path}, Words{"plan", path}}) {
    start_afresh();
    expect_refused_offline(words, "'base_model': no such file or directory: 'org/base'");
    const Ended ended = run(words);
    EXPECT_EQ(ended.exit, 0) << words[0] << ": " << ended.err;
    EXPECT_THAT(ended.err, Not(HasSubstr("no such file"))) << words[0];
    hub_.forget_requests();
    EXPECT_EQ(run(words).exit, 0) << words[0];
    EXPECT_EQ(hub_.requests(), "") << words[0];
  }
}

TEST_F(HubRecipes, OnlyWhatACommandReadsIsDownloaded) {
  const std::string path = at("a.yml");
  const Words bench{"bench", path, "--steps", "1", "--warmup", "1"};
  expect_refused_offline(bench, "'base_model': no such file or directory: 'org/base'");
  EXPECT_EQ(run(bench).exit, 0);
  EXPECT_THAT(hub_.requests(), Not(HasSubstr("org/rows")));
  start_afresh();
  EXPECT_EQ(run({"preprocess", path}).exit, 0);
  EXPECT_THAT(hub_.requests(), AllOf(HasSubstr("rows.jsonl"), Not(HasSubstr("model.safetensors"))));
  EXPECT_EQ(run({"train", path}).exit, 0);
  EXPECT_THAT(hub_.requests(), HasSubstr("model.safetensors"));
}

// As AutoTokenizer leaves the cache.
TEST_F(HubRecipes, APartOfAModelIsCompleted) {
  const std::string path = at("a.yml"), repository = hub_.cache("models--org--base");
  const Words infer{"infer", "--base-model", "org/base", "--prompt", "a", "--max-new-tokens", "2"};
  ASSERT_EQ(run({"fetch", "org/base", "--include", "tokenizer*"}).exit, 0);
  EXPECT_EQ(run_offline({"tokenize", "--model", "org/base", "--text", "a"}).exit, 0);
  for (const Words& words : {Words{"train", path}, infer, Words{"validate", path}, Words{"plan", path}})
    expect_refused_offline(words, "the cache has only a part of model org/base, without its config.json and weights");
  const Ended answered = run(infer);
  EXPECT_EQ(answered.exit, 0) << answered.err;
  EXPECT_EQ(run_offline(infer).out, answered.out);
  fs::remove(repository + "/snapshots/" + read_file(repository + "/refs/main") + "/model.safetensors");
  const Ended trained = run({"train", path});
  EXPECT_EQ(trained.exit, 0) << trained.err;
}

// As in the tutorial: a model of the Hub instead of a folder, from the first command on.
TEST_F(HubCommands, InitDownloadsAModelByItsName) {
  add_folder("models/org/base", base_directory());
  expect_refused(dml({"info", "org/base"}, around()), 2, {"org/base"});  // it only looks
  const Ended init = dml({"init", "org/base", at("rows.jsonl"), "-o", at("i.yml")}, around());
  ASSERT_EQ(init.exit, 0) << init.err;
  EXPECT_THAT(read_file(at("i.yml")), HasSubstr("\nbase_model: org/base "));
  EXPECT_EQ(dml({"validate", at("i.yml")}, around()).exit, 0);
  const Ended info = dml({"info", "org/base"}, around());
  EXPECT_EQ(info.exit, 0) << info.err;
  EXPECT_THAT(info.out, HasSubstr("llama"));
  auto ids = [&](const std::string& model) { return dml({"tokenize", "--text", "a cat", "--model", model}, around()); };
  EXPECT_EQ(ids("org/base").out, ids(base_directory()).out);
  EXPECT_EQ(ids("org/base").exit, 0);
  expect_refused(dml({"init", "org/bsae", at("rows.jsonl"), "-o", at("j.yml")}, around()), 2, {"org/bsae: not found"});
}

TEST_F(HubCommands, APushThatFailsIsAWarning) {
  const Keys keys = tiny_lora() + Keys{{"max_steps", "1"}, {"save_strategy", "no"}, {"hub_model_id", "org/result"}};
  expect_refused(train(1, recipe("a.yml", keys), {}, around("")), 2, {"a.yml:", "hub_model_id: a push needs a token"});
  const Ended run = train(1, recipe("a.yml", keys), {}, around("wrong"));
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("was not pushed"));
  EXPECT_THAT(run.err, HasSubstr("To push it later: dml push " + at("out") + " org/result"));
}

}  // namespace
}  // namespace dml::e2e
