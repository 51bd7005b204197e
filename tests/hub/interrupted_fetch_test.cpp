// Downloads that are killed, shared by processes, or go wrong a thousand times; a file larger than memory may be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "core/memory_limits.h"
#include "core/sha.h"
#include "hub/fetching.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing_tools::Fetching;
using testing_tools::varied_bytes;

TEST_F(Fetching, AKilledDownloadIsContinued) {
  // Its first 60 ranges come; then the server waits, and it dies.
  const std::string weights = varied_bytes(400'000), path = "models/org/model/model.safetensors";
  std::atomic<bool> waits = false, ends = false;
  hub_.add_made(path, weights.size(), Sha256().update(weights).hex(),
                [&](std::uint64_t offset, char* to, std::size_t count) {
                  waits = waits || offset >= 90'000;
                  while (waits && !ends) usleep(1000);
                  weights.copy(to, count, offset);
                });
  const pid_t child = fork();
  if (child == 0) {
    FetchRequest slow = request();
    slow.connections = 1;
    fetch_and_exit(slow);
  }
  int status = 0;
  while (!waits && waitpid(child, &status, WNOHANG) == 0) usleep(1000);
  EXPECT_TRUE(waits);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ends = true;
  hub_.add(path, weights);
  EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main")));
  hub_.forget_requests();
  expect_right(fetch());
  const std::string requests = hub_.requests();
  const auto ranges = std::count(requests.begin(), requests.end(), '\n');
  EXPECT_LT(ranges, 2 * 267 - 40) << "what was there was fetched again";
}

// Each attempt gets only a part of the one range that the file is. Downloads of other files in between, such as the
// card before an automatic download, leave the parts.
TEST_F(Fetching, AttemptsShorterThanARangeAddUp) {
  const std::string weights = varied_bytes(400'000);
  hub_.add("models/org/model/model.safetensors", weights);
  FetchRequest asked = request();
  asked.range_bytes = 1'000'000;
  asked.include = {"model.safetensors"};
  HubOptions once = hub_.options();
  once.tries = 1;
  for (int attempt = 1; attempt <= 3; ++attempt) {
    hub_.set_faults({{"cut", {1, 100'000}}});
    EXPECT_THROW(fetch_from_hub(HubClient(once), asked), IoError);
    hub_.set_faults({});
    FetchRequest other = asked;
    other.include = {"config.json"};
    fetch_from_hub(HubClient(once), other);
  }
  hub_.forget_requests();
  expect_right(fetch_from_hub(HubClient(once), asked));
  EXPECT_THAT(hub_.requests(), testing::HasSubstr("bytes=300000-399999"));
}

TEST_F(Fetching, AKilledDownloadIsContinuedInsideARange) {
  const std::string weights = varied_bytes(600'000);
  std::atomic<bool> ends = false;
  hub_.add_made("models/org/model/model.safetensors", weights.size(), Sha256().update(weights).hex(),
                [&](std::uint64_t offset, char* to, std::size_t count) {
                  while (offset >= 500'000 && !ends) usleep(1000);
                  weights.copy(to, count, offset);
                });
  FetchRequest asked = request();
  asked.range_bytes = 1'000'000;
  asked.include = {"model.safetensors"};
  const pid_t child = fork();
  if (child == 0) fetch_and_exit(asked);
  const std::string parts = hub_.cache("models--org--model/blobs/" + Sha256().update(weights).hex() + ".dml.parts");
  const std::size_t head = std::string("600000 bytes in 1000000\n").size();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0 && (!file_exists(parts) || read_file(parts).size() <= head))
    usleep(1000);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ends = true;
  hub_.add("models/org/model/model.safetensors", weights);
  hub_.forget_requests();
  expect_right(fetch(asked));
  EXPECT_THAT(hub_.requests(), testing::ContainsRegex("bytes=[2-5][0-9][0-9][0-9][0-9][0-9]-599999"));
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
  for (int i = 0; i < 1000 && !HasFailure(); ++i) {
    fs::remove_all(hub_.cache());
    hub_.set_faults({{"429", {2, 0}},
                     {"status", {2, 502}},
                     {"hang up", {3, 1}},
                     {"cut", {9, -1}},
                     {"416", {1, 1}},
                     {"no ranges", {2, 1}},
                     {"chunked", {1, 1}},
                     {"wrong bytes", {1, 1}},
                     {"longer", {1, 1}}},
                    0.3);
    if (!problem().empty()) {
      ++failed;
      EXPECT_FALSE(file_exists(hub_.cache("models--org--model/refs/main")));
      hub_.set_faults({});
    }
    expect_right(fetch());
  }
  std::printf("1000 downloads; %d failed, and were continued\n", failed);
}

TEST_F(Fetching, LongASilentServerTimesOut) {
  if (!std::getenv("DML_LONG")) GTEST_SKIP() << "DML_LONG=1";
  hub_.set_faults({{"halt", {2, 100}}});
  HubOptions options = hub_.options();
  options.stall_seconds = 1;
  expect_right(fetch_from_hub(HubClient(options), request()));
}

// Its bytes are the numbers 0, 1, … in 8 bytes each; their digest is that of sha256sum.
TEST_F(Fetching, LongALargeFileTakesConstantMemory) {
  if (!std::getenv("DML_LONG")) GTEST_SKIP() << "DML_LONG=1";
  constexpr std::uint64_t kSize = 5'000'000'000;
  hub_.add_made("models/org/model/model.safetensors", kSize,
                "bdb296ea4a34e4523e2af6946649af5293d00d72ee5ece617be8a5a33aede148",
                [](std::uint64_t offset, char* to, std::size_t count) {
                  for (std::size_t i = 0; i < count; ++i) {
                    const std::uint64_t at = offset + i;
                    to[i] = static_cast<char>(at / 8 >> at % 8 * 8);
                  }
                });
  const testing_tools::TemporaryFolder on_disk;
  setenv("HF_HUB_CACHE", on_disk.path().c_str(), 1);
  FetchRequest large;
  large.name = *parse_hub_name("org/model");
  constexpr std::size_t kAllowed = std::size_t{64} << 20;
  const std::size_t before = memory_use().now;
  const pid_t child = fork();
  if (child == 0) {
    try {
      if (fetch(large).bytes < kSize) _exit(3);
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());
      _exit(2);
    }
    std::printf("5 GB in %zu MiB, %zu of them the test's own\n", memory_use().peak >> 20, before >> 20);
    std::fflush(stdout);
    _exit(memory_use().peak < before + kAllowed ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace dml
