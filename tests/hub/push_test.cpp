// Results pushed to the mock of the Hub, and read back from it.
#include "hub/push.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "hub/fetch.h"
#include "hub/mock_hub.h"

namespace dml {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing_tools::varied_bytes;

class Pushing : public testing::Test {
 protected:
  void SetUp() override {
    make_directories(hub_.scratch("lora/checkpoint-10"));
    for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
             {"adapter_config.json", "{\"r\": 8}"},
             {"adapter_model.safetensors", varied_bytes(9100)},  // five parts
             {"tokenizer.json", varied_bytes(1200, 2)},          // one part, in LFS
             {"README.md", "# A model\n"},
             {"optimizer-rank-0.safetensors", varied_bytes(3000)},
             {"residual-0.safetensors", varied_bytes(3000)},
             {"completions.safetensors", varied_bytes(3000)},
             {"metrics.jsonl", "{}\n"},
             {"recipe.yml", "base_model: /home/me\n"},
             {"checkpoint-10/adapter_model.safetensors", varied_bytes(3000)}})
      write_file(hub_.scratch("lora/" + name), text);
  }

  PushRequest request() const {
    PushRequest out;
    out.id = "org/result";
    out.folder = hub_.scratch("lora");
    return out;
  }
  Pushed push(const PushRequest& request, const std::string& token = "secret-token") const {
    return push_to_hub(HubClient(hub_.options(token)), request);
  }
  std::string problem(const PushRequest& asked, const std::string& token = "secret-token") const {
    try {
      push(asked, token);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static std::vector<std::string> paths(const std::vector<LocalFile>& files) {
    std::vector<std::string> out;
    for (const LocalFile& file : files) out.push_back(file.path);
    return out;
  }

  testing_tools::MockHub hub_;
};

TEST_F(Pushing, AResultArrivesWholeAndNothingElse) {
  PushRequest asked = request();
  asked.make_private = true;
  const Pushed pushed = push(asked);
  EXPECT_THAT(paths(pushed.files),
              ElementsAre("README.md", "adapter_config.json", "adapter_model.safetensors", "tokenizer.json"));
  EXPECT_THAT(pushed.url, testing::StartsWith("http://hub/commit/"));
  EXPECT_EQ(pushed.sent, 9100u + 1200u);
  for (const LocalFile& file : pushed.files)
    EXPECT_EQ(hub_.content("models/org/result/" + file.path), read_file(hub_.scratch("lora/" + file.path)))
        << file.path;
  EXPECT_FALSE(hub_.has("models/org/result/recipe.yml"));
  const Json made = hub_.created();
  EXPECT_EQ(made, Json({{"name", "result"}, {"type", "model"}, {"private", true}, {"organization", "org"}}));
  const std::string requests = hub_.requests();
  EXPECT_THAT(requests, HasSubstr("-5 - -\n"));  // the fifth part; no token goes to the host of large files
  EXPECT_THAT(requests, Not(HasSubstr(std::to_string(hub_.cdn_port()) + " PUT /put/ - Bearer")));
  FetchRequest back;
  back.name = *parse_hub_name("org/result");
  EXPECT_EQ(read_file(fetch_from_hub(HubClient(hub_.options()), back).folder + "/adapter_model.safetensors"),
            varied_bytes(9100));
}

TEST_F(Pushing, FilesOnTheHubAreNotSentAgain) {
  push(request());
  hub_.forget_requests();
  PushRequest again = request();
  again.below = "last-checkpoint";
  EXPECT_EQ(push(again).sent, 0u);
  EXPECT_THAT(hub_.requests(), Not(HasSubstr("PUT")));
  EXPECT_EQ(hub_.content("models/org/result/last-checkpoint/adapter_model.safetensors"), varied_bytes(9100));
}

TEST_F(Pushing, ATokenThatMayNotCreateARepositoryPushesToOneThatExists) {
  hub_.set_faults({{"no creation", {9}}});
  EXPECT_THAT(problem(request()), AllOf(HasSubstr("access is refused (You don't have the rights to create a model in "
                                                  "this namespace): the token may not write there"),
                                        Not(HasSubstr("terms"))));
  hub_.add("models/org/result/README.md", "old");
  EXPECT_EQ(problem(request()), "");
  EXPECT_EQ(hub_.content("models/org/result/README.md"), "# A model\n");
}

TEST_F(Pushing, FilesThatTheRepositoryIgnoresAreLeftOut) {
  hub_.set_faults({{"ignore", {2, 1, "adapter_model.safetensors"}}});
  testing::internal::CaptureStderr();
  const Pushed pushed = push(request());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("excludes are not pushed: adapter_model.safetensors"));
  EXPECT_THAT(paths(pushed.files), ElementsAre("README.md", "adapter_config.json", "tokenizer.json"));
  EXPECT_EQ(pushed.sent, 1200u);
  EXPECT_FALSE(hub_.has("models/org/result/adapter_model.safetensors"));
  EXPECT_TRUE(hub_.has("models/org/result/README.md"));
  PushRequest only = request();
  only.include = {"adapter_model.safetensors"};
  EXPECT_THAT(problem(only), HasSubstr("nothing to push: the .gitignore of the repository excludes every file"));
}

TEST_F(Pushing, APullRequestIsNotCreatedAsABranch) {
  PushRequest asked = request();
  asked.revision = "refs/pr/1";
  EXPECT_EQ(problem(asked), "");
  EXPECT_THAT(hub_.requests(), AllOf(HasSubstr("/commit/refs%2Fpr%2F1"), Not(HasSubstr("/branch/"))));
  asked.revision = "v2";
  EXPECT_EQ(problem(asked), "");
  EXPECT_THAT(hub_.requests(), HasSubstr("/branch/v2"));
}

TEST_F(Pushing, PatternsAndDatasets) {
  PushRequest asked = request();
  asked.include = {"checkpoint-*"};
  EXPECT_THAT(paths(files_to_push(asked).files), ElementsAre("checkpoint-10/adapter_model.safetensors"));
  asked.kind = HubKind::dataset;
  asked.include = {"metrics.jsonl"};
  push(asked);
  EXPECT_EQ(hub_.content("datasets/org/result/metrics.jsonl"), "{}\n");
}

TEST_F(Pushing, ADatasetIsWhatIsReadAsOne) {
  PushRequest asked = request();
  asked.kind = HubKind::dataset;
  asked.folder = hub_.scratch("rows");
  std::filesystem::create_directories(asked.folder + "/more");
  const std::vector<std::string> rows{"README.md", "b.json.gz", "c.zip",        "d.tar.gz",
                                      "e.text",    "f.TSV",     "more/a.csv.gz"};
  for (const std::string& name : rows) write_file(asked.folder + "/" + name, "x");
  for (const char* name : {"notes.docx", "more/x.jsonl.br"}) write_file(asked.folder + "/" + name, "x");
  const FilesToPush found = files_to_push(asked);
  EXPECT_EQ(paths(found.files), rows);
  EXPECT_THAT(found.left_out, ElementsAre("more/x.jsonl.br", "notes.docx"));
}

TEST_F(Pushing, AFolderWithoutResultsIsRefused) {
  PushRequest asked = request();
  asked.folder = hub_.scratch("source");
  std::filesystem::create_directories(asked.folder + "/tokenizer");
  for (const char* name : {"README.md", "LICENSE", "config.json", "main.cpp", "tokenizer/tokenizer.json"})
    write_file(asked.folder + "/" + name, "x");
  EXPECT_THAT(problem(asked), HasSubstr("source: nothing to push: it has no weights, adapter or tokenizer; --include "
                                        "chooses other files, --dataset pushes files of rows"));
  EXPECT_EQ(hub_.requests(), "");
  write_file(asked.folder + "/tokenizer.json", "{}");
  EXPECT_EQ(paths(files_to_push(asked).files),
            (std::vector<std::string>{"LICENSE", "README.md", "config.json", "tokenizer.json"}));
  asked.include = {"README.md"};
  EXPECT_EQ(files_to_push(asked).files.size(), 1u);
  asked.include.clear();
  std::filesystem::remove(asked.folder + "/config.json");
  std::filesystem::remove(asked.folder + "/tokenizer.json");
  std::filesystem::remove_all(asked.folder + "/tokenizer");
  asked.kind = HubKind::dataset;
  EXPECT_THAT(problem(asked), HasSubstr("nothing to push: it has no file of rows; --include chooses other files"));
}

TEST_F(Pushing, ADryRunSendsNothing) {
  PushRequest dry = request();
  dry.dry_run = true;
  EXPECT_EQ(push(dry, "").files.size(), 4u);
  EXPECT_EQ(hub_.requests(), "");
}

TEST_F(Pushing, ProblemsAreReported) {
  EXPECT_THAT(problem(request(), ""), HasSubstr("a push needs a token with write access"));
  EXPECT_THAT(problem(request(), "wrong"),
              AllOf(HasSubstr("model org/result"), HasSubstr("the token may not see it"), Not(HasSubstr("wrong"))));
  PushRequest nowhere = request();
  nowhere.folder = hub_.scratch("none");
  EXPECT_THAT(problem(nowhere), HasSubstr("no such directory"));
  nowhere.folder = hub_.scratch("lora/checkpoint-10");
  nowhere.include = {"*.gguf"};
  EXPECT_THAT(problem(nowhere), HasSubstr("nothing to push: no file matches --include"));
  PushRequest name = request();
  for (const char* id : {"../x", "result", "org/result@v1"}) {
    name.id = id;
    EXPECT_THAT(problem(name), HasSubstr("is not a repository name")) << id;
  }
}

TEST_F(Pushing, FailuresAreRetriedOrLeaveTheRepositoryUnchanged) {
  for (const auto& [name, fault] :
       std::map<std::string, testing_tools::MockFault>{{"429", {3, 0}}, {"status", {3, 502}}, {"hang up", {3, 1}}}) {
    hub_.set_faults({{name, fault}});
    EXPECT_EQ(problem(request()), "") << name;
  }
  hub_.remove("models/org/result");
  hub_.set_faults({{"status", {99, 500}}});
  EXPECT_THAT(problem(request()), HasSubstr("status 500"));
  EXPECT_FALSE(hub_.has("models/org/result/README.md"));
}

}  // namespace
}  // namespace dml
