// Downloads from a mock of the Hub that simulates failures of networks and servers: the cache contains the right files
// or none.
#include "hub/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "hub/fetching.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_tools::Fetching;
using testing_tools::varied_bytes;
using Faults = std::map<std::string, testing_tools::MockFault>;

TEST_F(Fetching, FillsTheCacheAsHuggingfaceHubLaysItOut) {
  const Fetched fetched = fetch();
  expect_right(fetched);
  EXPECT_EQ(fetched.folder, hub_.cache("models--org--model/snapshots/" + fetched.commit));
  EXPECT_EQ(fetched.bytes, fetched.missing);
  EXPECT_FALSE(file_exists(fetched.folder + "/pytorch_model.bin"));
  EXPECT_FALSE(file_exists(fetched.folder + "/empty.txt"));
  // Links are relative; blobs are named by SHA-256, small ones by git's SHA-1 (`git hash-object`).
  EXPECT_EQ(fs::read_symlink(fetched.folder + "/additional_chat_templates/tool.jinja"),
            "../../../blobs/821fc38044d85e1133ec33bb23d135c9c74425fd");
  EXPECT_EQ(fs::read_symlink(fetched.folder + "/model.safetensors").filename().string().size(), 64u);
  EXPECT_EQ(fs::read_symlink(fetched.folder + "/config.json").filename().string().size(), 40u);
}

TEST_F(Fetching, CachedFilesAreNotFetchedAgain) {
  fetch();
  hub_.forget_requests();
  const Fetched again = fetch();
  expect_right(again);
  EXPECT_EQ(again.missing, 0u);
  EXPECT_THAT(hub_.requests(), Not(HasSubstr("resolve")));
}

TEST_F(Fetching, ANewCommitSharesWhatHasNotChanged) {
  const Fetched first = fetch();
  hub_.add("models/org/model/config.json", "{\"model_type\": \"qwen2\"}");
  hub_.forget_requests();
  const Fetched second = fetch();
  EXPECT_NE(first.commit, second.commit);
  expect_right(second);
  EXPECT_THAT(hub_.requests(), AllOf(HasSubstr("config.json"), Not(HasSubstr("/cdn/"))));
  EXPECT_EQ(read_file(first.folder + "/config.json"), "{\"model_type\": \"llama\"}");
}

TEST_F(Fetching, RevisionsPatternsAndDatasets) {
  EXPECT_TRUE(file_exists(fetch("org/model@refs/pr/1").folder + "/config.json"));
  EXPECT_TRUE(file_exists(hub_.cache("models--org--model/refs/refs/pr/1")));
  FetchRequest only = request();
  only.include = {"*.bin", "empty.txt"};
  const Fetched chosen = fetch(only);
  EXPECT_EQ(read_file(chosen.folder + "/pytorch_model.bin"), "never");
  EXPECT_EQ(read_file(chosen.folder + "/empty.txt"), "");
  only.include = {"*.gguff"};
  EXPECT_THAT(problem(only), HasSubstr("model org/model: no file matches '*.gguff'"));
  hub_.add("datasets/org/rows/data/train-00000-of-00001.jsonl", "{}");
  hub_.add("datasets/org/rows/script.py", "no");
  FetchRequest rows = request("org/rows");
  rows.kind = HubKind::dataset;
  const Fetched dataset = fetch(rows);
  EXPECT_EQ(dataset.files.size(), 1u);
  EXPECT_EQ(dataset.folder, hub_.cache("datasets--org--rows/snapshots/" + dataset.commit));
  EXPECT_EQ(read_file(dataset.folder + "/data/train-00000-of-00001.jsonl"), "{}");
}

TEST_F(Fetching, ADryRunWritesNothing) {
  FetchRequest dry = request();
  dry.dry_run = true;
  EXPECT_EQ(fetch(dry).files.size(), 4u);
  EXPECT_FALSE(file_exists(hub_.cache()));
}

TEST_F(Fetching, TheTokenStaysWithTheHub) {
  hub_.add("models/private/model/config.json", "{}");
  hub_.add("models/private/model/model.safetensors", weights_);
  EXPECT_THAT(problem("private/model"),
              AllOf(HasSubstr("model private/model: not found on http://127.0.0.1"), HasSubstr("or private or gated"),
                    HasSubstr("no token is set (HF_TOKEN")));
  hub_.forget_requests();
  fetch(request("private/model"), "secret-token");
  std::istringstream lines(hub_.requests());
  int to_endpoint = 0, to_cdn = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool cdn = line.starts_with(std::to_string(hub_.cdn_port()));
    ++(cdn ? to_cdn : to_endpoint);
    EXPECT_EQ(line.ends_with(" Bearer secret-token"), !cdn) << line;
  }
  EXPECT_GT(to_endpoint, 0);
  EXPECT_GT(to_cdn, 0);
  for (auto& entry : fs::recursive_directory_iterator(hub_.cache()))
    if (entry.is_regular_file()) {
      EXPECT_THAT(read_file(entry.path()), Not(HasSubstr("secret-token")));
    }
}

TEST_F(Fetching, RefusalsAreExplained) {
  EXPECT_THAT(problem("org/none"), AllOf(HasSubstr("model org/none: not found on"), HasSubstr("check the name")));
  EXPECT_THAT(problem("org/model@v9"),
              HasSubstr("model org/model@v9: there is no such branch, tag or commit (Invalid rev id)"));
  EXPECT_THAT(problem("gated/model"),
              AllOf(HasSubstr("model gated/model: access is refused"), HasSubstr("accept its terms")));
  hub_.set_faults({{"html", {9, 1}}});
  EXPECT_THAT(problem(), HasSubstr("answers with a web page"));
  hub_.set_faults({{"not a hub", {9, 1}}});
  EXPECT_THAT(problem(), HasSubstr("is not the Hub: its answer names no commit"));
  hub_.set_faults({{"redirect loop", {99, 1}}});
  EXPECT_THAT(problem(), HasSubstr("more than 5 redirects"));
  hub_.set_faults({{"redirect to a file", {99, 1}}});
  EXPECT_THAT(problem(), HasSubstr("a redirect from http://127.0.0.1"));
  hub_.set_faults({{"bad name", {1, 0, "../../.ssh/id"}}});
  EXPECT_THAT(problem(), HasSubstr("the file name '../../.ssh/id' is not safe to create"));
  HubOptions nobody = hub_.options();
  nobody.endpoint = "http://127.0.0.1:1";
  EXPECT_THAT([&] { fetch_from_hub(HubClient(nobody), request()); },
              testing::ThrowsMessage<IoError>(HasSubstr("cannot be reached")));
  HubOptions offline = hub_.options();
  offline.offline = true;
  EXPECT_THAT([&] { fetch_from_hub(HubClient(offline), request()); },
              testing::ThrowsMessage<UserError>(HasSubstr("HF_HUB_OFFLINE is set")));
  hub_.set_faults({});
  fetch();
  FetchRequest more = request();
  more.include = {"*.bin"};
  EXPECT_THAT([&] { fetch_from_hub(HubClient(offline), more); },
              testing::ThrowsMessage<UserError>(
                  AllOf(HasSubstr("the cache has not all files that are asked for"), Not(HasSubstr("revision")))));
}

TEST_F(Fetching, ARenamedRepositoryIsFollowed) {
  hub_.add("models/old/name/config.json", "{\"model_type\": \"llama\"}");
  EXPECT_NE(problem("old/name"), "");  // its files are no longer those that are listed: nothing wrong is accepted
}

TEST_F(Fetching, TransientFailuresAreRetried) {
  for (const Faults& faults : std::vector<Faults>{{{"429", {3, 0}}},
                                                  {{"status", {3, 500}}},
                                                  {{"status", {2, 503}}},
                                                  {{"hang up", {3, 1}}},
                                                  {{"cut", {1, 10}}},
                                                  {{"cut", {6, -1}}},
                                                  {{"cut", {1, 0}}},
                                                  {{"416", {1, 1}}},
                                                  {{"no ranges", {99, 1}}},
                                                  {{"no ranges", {1, 1}}},
                                                  {{"no ranges", {99, 1}}, {"cut", {3, -1}}},
                                                  {{"chunked", {99, 1}}},
                                                  {{"chunked", {1, 1}}}}) {
    SCOPED_TRACE(faults.begin()->first);
    fs::remove_all(hub_.cache());
    hub_.set_faults(faults);
    EXPECT_NO_THROW(expect_right(fetch()));
  }
}

TEST_F(Fetching, PersistentFailuresAreErrorsAndNothingWrongIsAccepted) {
  for (const auto& [faults, said] : std::vector<std::pair<Faults, const char*>>{
           {{{"status", {99, 500}}}, "answered with status 500 (the server has a problem)"},
           {{{"429", {99, 0}}}, "limits the number of requests (429)"},
           {{{"hang up", {999, 1}}}, "cannot be reached, or the connection was lost"},
           {{{"cut", {999, 0}}}, "the connection was lost"},
           {{{"416", {99, 1}}}, "status 416"},
           {{{"wrong bytes", {99, 1}}}, "it was discarded"},
           {{{"longer", {99, 1}}}, "more than the"}}) {
    fs::remove_all(hub_.cache());
    hub_.set_faults(faults);
    EXPECT_THAT(problem(), HasSubstr(said));
    EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main"))) << said;
    hub_.set_faults({});
    expect_right(fetch());
  }
}

TEST_F(Fetching, AFileThatChangesMeanwhileIsListedAgain) {
  hub_.set_faults({{"change", {1, 0, "{\"model_type\": \"gemma\"}"}}});
  FetchRequest config = request();
  config.include = {"config.json"};
  const Fetched fetched = fetch(config);
  EXPECT_EQ(read_file(fetched.folder + "/config.json"), "{\"model_type\": \"gemma\"}");
  EXPECT_EQ(read_file(hub_.cache("models--org--model/refs/main")), fetched.commit);
  expect_clean();
}

TEST_F(Fetching, PausesFollowTheServerOrGrow) {
  std::vector<double> pauses;
  HubOptions options = hub_.options();
  options.pause = [&](double seconds) { pauses.push_back(seconds); };
  FetchRequest one = request();
  one.connections = 1;
  hub_.set_faults({{"429", {2, 7}}});
  fetch_from_hub(HubClient(options), one);
  EXPECT_THAT(pauses, testing::ElementsAre(7, 7));
  pauses.clear();
  hub_.set_faults({{"429", {9, -1}}});  // without Retry-After, and too often
  EXPECT_THROW(fetch_from_hub(HubClient(options), one), IoError);
  EXPECT_THAT(pauses, testing::ElementsAre(1, 2, 4, 8));
}

TEST(HubClient, WaitsUntilARateLimitIsReset) {
  for (const auto& [header, seconds] : std::map<std::string, double>{
           {"\"api\";r=0;t=55", 55}, {"limit=100, remaining=0, t=7", 7}, {"limit=100;reset=9", -1}, {"", -1}}) {
    WebAnswer answer;
    answer.headers["ratelimit"] = header;
    EXPECT_EQ(retry_after(answer), seconds) << header;
  }
}

// libcurl names the host, whatever it is called.
TEST_F(Fetching, OnlyRedirectsThatAreNotFollowedAreFinal) {
  std::size_t pauses = 0;
  HubOptions options = hub_.options();
  options.pause = [&](double) { ++pauses; };
  hub_.set_faults({{"redirect loop", {99, 1}}});
  EXPECT_THROW(fetch_from_hub(HubClient(options), request()), IoError);
  EXPECT_EQ(pauses, 0u);
  setenv("no_proxy", "127.0.0.1,redirect.localhost", 1);
  options.endpoint = "http://redirect.localhost:1";
  EXPECT_THROW(fetch_from_hub(HubClient(options), request()), IoError);
  EXPECT_EQ(pauses, 4u);
}

TEST_F(Fetching, WithoutDiskSpaceNothingIsDownloaded) {
  hub_.add_made("models/org/model/model.safetensors", 1'000'000'000'000'000, std::string(64, 'a'), {});
  EXPECT_THAT(problem(), AllOf(HasSubstr("1000000.0 GB are needed"), HasSubstr("HF_HUB_CACHE names another folder")));
  EXPECT_THAT(hub_.requests(), Not(HasSubstr("resolve")));
}

}  // namespace
}  // namespace dml
