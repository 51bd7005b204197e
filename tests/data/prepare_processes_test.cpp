// Several processes, and killed ones: the result is one folder with the same bytes, and nothing else.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "core/built_folder.h"
#include "core/files.h"
#include "data/fixtures.h"
#include "data/prepare.h"
#include "recipe/recipe.h"

extern char** environ;

namespace dml {
namespace {

// Thirty ends and ten times eight processes instead of a few.
bool long_form() { return std::getenv("DML_LONG") != nullptr; }

Prepared prepare_rows(const std::string& file, const std::string& root) {
  DataSection data;
  data.dataset_prepared_path = root;
  DatasetEntry entry;
  entry.path = file;
  entry.type.name = "completion";
  data.datasets = {entry};
  return prepare(data, TemplateSection(), 42, ByteTokenizer());
}

// The body of the child processes of the tests below; does nothing by itself.
TEST(PrepareChild, Prepares) {
  const char* file = std::getenv("DML_TEST_CHILD_FILE");
  if (!file) GTEST_SKIP() << "only run as a child";
  prepare_rows(file, std::getenv("DML_TEST_CHILD_ROOT"));
}

class PrepareProcesses : public FolderTest {
 protected:
  PrepareProcesses() {
    std::string rows;
    for (int i = 0; i < 4000; ++i)
      rows += fmt::format("{{\"text\": \"{}{}\"}}\n", std::string(static_cast<std::size_t>(i % 300 + 5), 'x'), i);
    file_ = write("a.jsonl", rows);
    root_ = path("prepared");
  }
  /// `cuts`: variables for tests/ops/cut_writes.cpp.
  pid_t spawn(const std::map<std::string, std::string>& cuts = {}) {
    setenv("DML_TEST_CHILD_FILE", file_.c_str(), 1);
    setenv("DML_TEST_CHILD_ROOT", root_.c_str(), 1);
    for (auto& [name, value] : cuts) setenv(name.c_str(), value.c_str(), 1);
    std::string self = std::filesystem::read_symlink("/proc/self/exe").string(),
                filter = "--gtest_filter=PrepareChild.Prepares", quiet = "--gtest_brief=1";
    char* arguments[] = {self.data(), filter.data(), quiet.data(), nullptr};
    pid_t child = 0;
    posix_spawn_file_actions_t silent;
    posix_spawn_file_actions_init(&silent);
    posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    EXPECT_EQ(posix_spawn(&child, self.c_str(), &silent, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&silent);
    unsetenv("DML_TEST_CHILD_FILE");
    for (auto& [name, value] : cuts) unsetenv(name.c_str());
    return child;
  }
  static std::vector<std::string> names(const std::string& folder) {
    std::vector<std::string> out;
    for (auto& entry : std::filesystem::directory_iterator(folder)) out.push_back(entry.path().filename().string());
    return out;
  }
  static std::string bytes(const Prepared& p) {
    std::string all = read_file(p.folder() + "/manifest.json");
    for (auto& name : Prepared::array_names()) all += read_file(p.folder() + "/" + name + ".safetensors");
    return all;
  }
  std::string file_, root_;
};

TEST_F(PrepareProcesses, ShareOneFolder) {
  const std::string clean = bytes(prepare_rows(file_, path("clean")));
  for (int round = 0; round < (long_form() ? 10 : 1); ++round) {
    std::filesystem::remove_all(root_);
    std::vector<pid_t> children;
    for (int i = 0; i < (long_form() ? 8 : 6); ++i) children.push_back(spawn());
    for (pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    EXPECT_THAT(names(root_), testing::SizeIs(1));
    EXPECT_EQ(bytes(prepare_rows(file_, root_)), clean);
  }
}

// Kills at many points of a run, the last ones while it writes the manifest and renames the folder: each at a system
// call that changes something there.
TEST_F(PrepareProcesses, LeaveNothingBehindWhenTheyAreKilled) {
  const std::string clean = bytes(prepare_rows(file_, path("clean")));
  std::map<std::string, std::string> cuts{{"LD_PRELOAD", DML_CUT_WRITES},
                                          {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                          {"CUT_FOLDER", root_},
                                          {"CUT_COUNT", path("count")}};
  waitpid(spawn(cuts), nullptr, 0);
  const int calls = std::stoi(read_file(path("count"))), kills = std::min(calls, long_form() ? 30 : 8);
  ASSERT_GE(kills, 8);
  std::filesystem::remove_all(root_);
  for (int i = 1; i <= kills; ++i) {
    cuts["CUT_AT"] = std::to_string(calls * i / kills);
    int status = 0;
    waitpid(spawn(cuts), &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 137) << i;
    // Every second kill is followed by another one before a process completes.
    if (i % 2 == 1) continue;
    Prepared p = prepare_rows(file_, root_);
    EXPECT_EQ(bytes(p), clean);
    EXPECT_THAT(names(root_), testing::SizeIs(1));
    std::filesystem::remove_all(root_);
  }
}

// A process that dies after it named the folder and before it removed its lock.
TEST_F(PrepareProcesses, RemoveTheLockOfADeadProcess) {
  const Prepared ready = prepare_rows(file_, root_);
  const std::string name = std::filesystem::path(ready.folder()).filename(), other(name.size(), 'a');
  write("prepared/." + name + ".lock", "");
  write("prepared/." + name + ".tmp-1-0/tokens", "old");
  write("prepared/." + other + ".tmp-1-0/tokens", "old");
  write("prepared/.notes", "the user's own");
  EXPECT_TRUE(prepare_rows(file_, root_).was_ready);
  EXPECT_THAT(names(root_), testing::UnorderedElementsAre(name, ".notes"));
}

TEST_F(PrepareProcesses, KeepTheLockOfALiveProcess) {
  prepare_rows(file_, root_);
  const std::string other(32, 'a');
  BuildLock working(root_, other);
  write("prepared/." + other + ".tmp-1-0/tokens", "new");
  EXPECT_TRUE(prepare_rows(file_, root_).was_ready);
  EXPECT_THAT(names(root_), testing::IsSupersetOf({"." + other + ".lock", "." + other + ".tmp-1-0"}));
}

}  // namespace
}  // namespace dml
