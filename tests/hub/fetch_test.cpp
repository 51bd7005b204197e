// Downloads from a mock of the Hub that does what networks and servers do: what arrives in the cache is right, or nothing is.
#include "hub/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "hub/mock_hub.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_tools::varied_bytes;

class Fetching : public testing::Test {
 protected:
  void SetUp() override {
    if (!hub_.is_there()) GTEST_SKIP() << "python3 is needed for the mock";
    hub_.add("models/org/model/config.json", "{\"model_type\": \"llama\"}");
    hub_.add("models/org/model/model.safetensors", weights_);
    hub_.add("models/org/model/tokenizer.json", varied_bytes(2500, 2));
    hub_.add("models/org/model/additional_chat_templates/tool.jinja", "{{ x }}");
    hub_.add("models/org/model/pytorch_model.bin", "never");
    hub_.add("models/org/model/empty.txt", "");
  }

  FetchRequest request(const std::string& name = "org/model") const {
    FetchRequest out;
    out.name = *parse_hub_name(name);
    out.range_bytes = 1500;  // several ranges a file
    return out;
  }
  Fetched fetch(const FetchRequest& request, const std::string& token = "") const {
    return fetch_from_hub(HubClient(hub_.options(token)), request);
  }
  Fetched fetch(const std::string& name = "org/model") const { return fetch(request(name)); }
  // In a child process.
  [[noreturn]] void fetch_and_exit(const FetchRequest& request) const {
    try {
      fetch(request);
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  }
  std::string problem(const FetchRequest& asked, const std::string& token = "") const {
    try {
      fetch(asked, token);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string problem(const std::string& name = "org/model") const { return problem(request(name)); }

  // Every file as the Hub has it, and nothing in the cache but blobs, links and the reference.
  void expect_right(const Fetched& fetched) const {
    for (const HubFile& file : fetched.files)
      EXPECT_EQ(read_file(fetched.folder + "/" + file.path), read_file(hub_.at("models/org/model/" + file.path))) << file.path;
    expect_clean();
    EXPECT_EQ(read_file(hub_.cache("models--org--model/refs/main")), fetched.commit);
    EXPECT_EQ(find_in_hub_cache(HubKind::model, "org/model"), fetched.folder);
  }
  void expect_clean() const {
    for (auto& entry : fs::recursive_directory_iterator(hub_.cache())) {
      const std::string name = entry.path().filename();
      EXPECT_EQ(name.find("incomplete"), name.npos) << entry.path();
      EXPECT_EQ(name.find(".dml"), name.npos) << entry.path();
      EXPECT_TRUE(entry.is_directory() || name.find(".lock") == name.npos) << entry.path();
    }
  }

  const testing_tools::MockHub hub_;
  const std::string weights_ = varied_bytes(10'000);
};

TEST_F(Fetching, FillsTheCacheAsHuggingfaceHubLaysItOut) {
  const Fetched fetched = fetch();
  expect_right(fetched);
  EXPECT_EQ(fetched.folder, hub_.cache("models--org--model/snapshots/" + fetched.commit));
  EXPECT_EQ(fetched.bytes, fetched.missing);
  EXPECT_FALSE(file_exists(fetched.folder + "/pytorch_model.bin"));
  EXPECT_FALSE(file_exists(fetched.folder + "/empty.txt"));
  // Links are relative; blobs are named by SHA-256, small ones by git's SHA-1 (`git hash-object`).
  EXPECT_EQ(fs::read_symlink(fetched.folder + "/additional_chat_templates/tool.jinja"), "../../../blobs/821fc38044d85e1133ec33bb23d135c9c74425fd");
  EXPECT_EQ(fs::read_symlink(fetched.folder + "/model.safetensors").filename().string().size(), 64u);
  EXPECT_EQ(fs::read_symlink(fetched.folder + "/config.json").filename().string().size(), 40u);
}

TEST_F(Fetching, WhatIsThereIsNotFetchedAgain) {
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
  EXPECT_THAT(problem(only), HasSubstr("model org/model: no file fits '*.gguff'"));
  hub_.add("datasets/org/rows/data/train-00000-of-00001.jsonl", "{}");
  hub_.add("datasets/org/rows/script.py", "no");
  FetchRequest rows = request("org/rows");
  rows.kind = HubKind::dataset;
  const Fetched dataset = fetch(rows);
  EXPECT_EQ(dataset.files.size(), 1u);
  EXPECT_EQ(dataset.folder, hub_.cache("datasets--org--rows/snapshots/" + dataset.commit));
  EXPECT_EQ(read_file(dataset.folder + "/data/train-00000-of-00001.jsonl"), "{}");
}

TEST_F(Fetching, ADryRunTouchesNothing) {
  FetchRequest dry = request();
  dry.dry_run = true;
  EXPECT_EQ(fetch(dry).files.size(), 4u);
  EXPECT_FALSE(file_exists(hub_.cache()));
}

TEST_F(Fetching, TheTokenStaysWithTheHub) {
  hub_.add("models/private/model/config.json", "{}");
  hub_.add("models/private/model/model.safetensors", weights_);
  EXPECT_THAT(problem("private/model"), AllOf(HasSubstr("model private/model: not found on http://127.0.0.1"), HasSubstr("or private or gated"),
                                              HasSubstr("no token is set (HF_TOKEN")));
  hub_.forget_requests();
  fetch(request("private/model"), "secret-token");
  std::istringstream lines(hub_.requests());
  int to_endpoint = 0, to_cdn = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool cdn = line.starts_with(std::to_string(hub_.cdn()));
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

TEST_F(Fetching, RefusalsSayWhatTheyMean) {
  EXPECT_THAT(problem("org/none"), AllOf(HasSubstr("model org/none: not found on"), HasSubstr("check the name")));
  EXPECT_THAT(problem("org/model@v9"), HasSubstr("model org/model@v9: there is no such branch, tag or commit (Invalid rev id)"));
  EXPECT_THAT(problem("gated/model"), AllOf(HasSubstr("model gated/model: access is refused"), HasSubstr("accept its terms")));
  hub_.set_faults(R"({"html": [9, 1]})");
  EXPECT_THAT(problem(), HasSubstr("answers with a web page"));
  hub_.set_faults(R"({"not a hub": [9, 1]})");
  EXPECT_THAT(problem(), HasSubstr("is not the Hub: its answer names no commit"));
  hub_.set_faults(R"({"redirect loop": [99, 1]})");
  EXPECT_THAT(problem(), HasSubstr("more than 5 redirects"));
  hub_.set_faults(R"({"redirect to a file": [99, 1]})");
  EXPECT_THAT(problem(), HasSubstr("a redirect from http://127.0.0.1"));
  hub_.set_faults(R"({"bad name": [1, "../../.ssh/id"]})");
  EXPECT_THAT(problem(), HasSubstr("a file called '../../.ssh/id' is refused"));
  HubOptions nobody = hub_.options();
  nobody.endpoint = "http://127.0.0.1:1";
  EXPECT_THAT([&] { fetch_from_hub(HubClient(nobody), request()); }, testing::ThrowsMessage<IoError>(HasSubstr("cannot be reached")));
  HubOptions offline = hub_.options();
  offline.offline = true;
  EXPECT_THAT([&] { fetch_from_hub(HubClient(offline), request()); }, testing::ThrowsMessage<UserError>(HasSubstr("HF_HUB_OFFLINE is set")));
}

TEST_F(Fetching, ARenamedRepositoryIsFollowed) {
  hub_.add("models/old/name/config.json", "{\"model_type\": \"llama\"}");
  EXPECT_NE(problem("old/name"), "");  // its files are no longer those that are listed: nothing wrong is accepted
}

TEST_F(Fetching, PassingTroublesAreTriedAgain) {
  for (const char* faults :
       {R"({"429": [3, 0]})", R"({"status": [3, 500]})", R"({"status": [2, 503]})", R"({"hang up": [3, 1]})", R"({"cut": [1, 10]})",
        R"({"cut": [6, -1]})", R"({"cut": [1, 0]})", R"({"416": [1, 1]})", R"({"no ranges": [99, 1]})", R"({"no ranges": [1, 1]})",
        R"({"no ranges": [99, 1], "cut": [3, -1]})", R"({"chunked": [99, 1]})", R"({"chunked": [1, 1]})"}) {
    fs::remove_all(hub_.cache());
    hub_.set_faults(faults);
    EXPECT_NO_THROW(expect_right(fetch())) << faults;
  }
}

TEST_F(Fetching, TroublesThatStayAreErrorsAndNothingWrongIsAccepted) {
  for (const auto& [faults, said] : std::vector<std::pair<const char*, const char*>>{
           {R"({"status": [99, 500]})", "answered with status 500 (the server has a problem)"},
           {R"({"429": [99, 0]})", "limits the number of requests (429)"},
           {R"({"hang up": [999, 1]})", "cannot be reached or broke off"},
           {R"({"cut": [999, 0]})", "broke off"},
           {R"({"416": [99, 1]})", "status 416"},
           {R"({"wrong bytes": [99, 1]})", "it was thrown away"},
           {R"({"longer": [99, 1]})", "more than the"}}) {
    fs::remove_all(hub_.cache());
    hub_.set_faults(faults);
    EXPECT_THAT(problem(), HasSubstr(said)) << faults;
    EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main"))) << faults;
    hub_.set_faults("{}");
    expect_right(fetch());
  }
}

TEST_F(Fetching, AFileThatChangesMeanwhileIsListedAgain) {
  hub_.set_faults(R"({"change": [1, "{\"model_type\": \"gemma\"}"]})");
  FetchRequest config = request();
  config.include = {"config.json"};
  const Fetched fetched = fetch(config);
  EXPECT_EQ(read_file(fetched.folder + "/config.json"), "{\"model_type\": \"gemma\"}");
  EXPECT_EQ(read_file(hub_.cache("models--org--model/refs/main")), fetched.commit);
  expect_clean();
}

TEST_F(Fetching, AKilledDownloadIsContinued) {
  hub_.add("models/org/model/model.safetensors", varied_bytes(400'000));
  const pid_t child = fork();
  if (child == 0) {
    FetchRequest slow = request();
    slow.connections = 1;
    fetch_and_exit(slow);
  }
  // Some ranges are there: then it dies.
  auto parts = [&] {
    std::size_t done = 0;
    std::error_code none;
    for (fs::directory_iterator it(hub_.cache("models--org--model/blobs"), none), end; !none && it != end; it.increment(none))
      if (it->path().string().ends_with(".dml.parts")) done = std::max<std::size_t>(done, fs::file_size(it->path(), none));
    return done;
  };
  int status = 0;
  while (parts() < 60 && waitpid(child, &status, WNOHANG) == 0) usleep(200);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main")));
  hub_.forget_requests();
  expect_right(fetch());
  const std::string requests = hub_.requests();
  const auto ranges = std::count(requests.begin(), requests.end(), '\n');
  EXPECT_LT(ranges, 2 * 267 - 40) << "what was there was fetched again";
}

TEST_F(Fetching, OfTwoProcessesOneDownloads) {
  hub_.add("models/org/model/model.safetensors", varied_bytes(300'000));
  FetchRequest large = request();
  large.range_bytes = 20'000;
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      fetch_and_exit(large);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::istringstream lines(hub_.requests());
  std::map<std::string, int> count;
  for (std::string line; std::getline(lines, line);)
    if (line.find(" /cdn/") != line.npos) ++count[line];
  EXPECT_GE(count.size(), 15u);
  for (auto& [line, times] : count) EXPECT_EQ(times, 1) << line;
  hub_.forget_requests();
  expect_right(fetch());
}

// DML_LONG=1: the figures of a long run.
TEST_F(Fetching, LongAThousandFaultyDownloadsLeaveNothingWrong) {
  if (!std::getenv("DML_LONG")) GTEST_SKIP() << "DML_LONG=1";
  int failed = 0;
  for (int i = 0; i < 1000; ++i) {
    fs::remove_all(hub_.cache());
    hub_.set_faults(R"({"rate": [0.3, 0], "429": [2, 0], "status": [2, 502], "hang up": [3, 1], "cut": [9, -1], "416": [1, 1], "no ranges": [2, 1],
                       "chunked": [1, 1], "wrong bytes": [1, 1], "longer": [1, 1]})");
    if (!problem().empty()) {
      ++failed;
      EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main")));
    }
    hub_.set_faults("{}");
    expect_right(fetch());
    if (HasFailure()) break;
  }
  RecordProperty("failed and fetched again", failed);
  std::printf("1000 downloads, %d of them failed and were continued\n", failed);
}

TEST_F(Fetching, LongALargeFileTakesConstantMemory) {
  if (!std::getenv("DML_LONG")) GTEST_SKIP() << "DML_LONG=1";
  std::string part = varied_bytes(std::size_t{256} << 20);
  hub_.add("models/org/model/model.safetensors", part);
  part = {};
  FetchRequest large;
  large.name = *parse_hub_name("org/model");
  const std::size_t before = memory_use().now;
  const pid_t child = fork();
  if (child == 0) {
    try {
      fetch(large);
    } catch (const std::exception&) {
      _exit(2);
    }
    _exit(memory_use().peak < before + (std::size_t{64} << 20) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "more than 64 MiB for 256 MiB";
}

}  // namespace
}  // namespace dml
