#include "core/left_over.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace fs = std::filesystem;
using testing_tools::TemporaryFolder;
namespace {

TEST(LeftOver, OfAnotherTargetStays) {
  const TemporaryFolder dir;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const std::string its = dir / fmt::format(".a.tmp-{}-0", child), own = temporary_name(dir / "a"),
                    others = dir / fmt::format(".b.tmp-{}-0", child);
  for (const std::string& path : {its, own, others}) write_file(path, "x");
  remove_left_over_of(dir / "a");
  EXPECT_FALSE(fs::exists(its));
  EXPECT_TRUE(fs::exists(own)) << "its process is alive";
  EXPECT_TRUE(fs::exists(others));
}

// A process that was killed and not waited for yet; one that is still exiting.
TEST(LeftOver, OfDyingProcessesIsRemoved) {
  const TemporaryFolder dir;
  auto left_by = [&](pid_t process) {
    std::string name = dir / fmt::format(".checkpoint-4.tmp-{}-0", process);
    fs::create_directories(name);
    write_file(name + "/file", "x");
    return name;
  };
  pid_t killed = fork();
  if (killed == 0) _exit(0);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(killed), &ended, WEXITED | WNOWAIT);
  std::string name = left_by(killed);
  remove_left_over(dir.path());
  EXPECT_FALSE(fs::exists(name));
  waitpid(killed, nullptr, 0);

  int ends[2];  // it goes when the last one who could write has gone
  ASSERT_EQ(pipe(ends), 0);
  pid_t going = fork();
  if (going == 0) {
    char none;
    close(ends[1]);
    _exit(static_cast<int>(read(ends[0], &none, 1)));
  }
  name = left_by(going);
  remove_left_over(dir.path());
  EXPECT_TRUE(fs::exists(name));
  std::thread lets_go([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    close(ends[1]);
  });
  remove_left_over(dir.path(), 200);
  EXPECT_FALSE(fs::exists(name));
  lets_go.join();
  waitpid(going, nullptr, 0);
  close(ends[0]);
}

}  // namespace
}  // namespace dml
