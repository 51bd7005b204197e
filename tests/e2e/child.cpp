#include "e2e/child.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/error.h"
#include "core/files.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string make_scratch() {
  std::string name = (fs::temp_directory_path() / "dml-child-XXXXXX").string();
  DML_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

void redirect(const std::string& path, int flags, int to) {
  int fd = open(path.c_str(), flags, 0600);
  if (fd < 0 || dup2(fd, to) < 0) _exit(126);
}

}  // namespace

Child::Child(const Words& words, const Surroundings& around)
    : around_(around), scratch_(make_scratch()), started_(now()) {
  write_file(scratch_ + "/in", around.input);
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  DML_CHECK(pid_ >= 0);
  if (pid_ > 0) return;
  setpgid(0, 0);
  redirect(scratch_ + "/in", O_RDONLY, STDIN_FILENO);
  redirect(scratch_ + "/out", O_WRONLY | O_CREAT, STDOUT_FILENO);
  redirect(scratch_ + "/err", O_WRONLY | O_CREAT, STDERR_FILENO);
  for (const std::string& e : around.environment) putenv(const_cast<char*>(e.c_str()));
  if (!around.folder.empty() && chdir(around.folder.c_str()) != 0) _exit(126);
  if (around.file_limit >= 0) {
    rlimit limit{static_cast<rlim_t>(around.file_limit), static_cast<rlim_t>(around.file_limit)};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);  // as on a full disk: write() fails
  }
  execvp(argv[0], argv.data());
  _exit(127);
}

Child::~Child() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
}

void Child::signal(int number) const { kill(pid_, number); }

Ended Child::wait() {
  Ended e;
  int status = 0;
  rusage use{};
  while (wait4(pid_, &status, WNOHANG, &use) == 0) {
    if (now() - started_ > around_.timeout && !e.timed_out) {
      e.timed_out = true;
      kill(-pid_, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pid_ = -1;
  e.seconds = now() - started_;
  e.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  e.peak = static_cast<std::size_t>(use.ru_maxrss) * 1024;
  e.out = read_file(scratch_ + "/out");
  e.err = read_file(scratch_ + "/err");
  return e;
}

Ended run(const Words& words, const Surroundings& around) { return Child(words, around).wait(); }

std::string dml_path() { return DML_BINARY_DIR "/dml"; }

Ended dml(Words words, const Surroundings& around) {
  words.insert(words.begin(), dml_path());
  return run(words, around);
}

Words on_ranks(int ranks, Words words) {
  Words all;
  if (ranks > 1)
    all = {"env",
           "OMPI_ALLOW_RUN_AS_ROOT=1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
           "mpirun",
           "--oversubscribe",
           "--bind-to",
           "none",
           "-np",
           std::to_string(ranks)};
  all.push_back(dml_path());
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

bool has_program(const std::string& name) { return run({"sh", "-c", "command -v " + name}).exit == 0; }

bool has_mpirun() {
  static const bool there = has_program("mpirun");
  return there;
}

std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (auto& entry : fs::directory_iterator("/proc")) {
    std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // Files of /proc have no size: read_file's check of it does not apply.
    int fd = open((entry.path() / "cmdline").c_str(), O_RDONLY);
    if (fd < 0) continue;
    std::string line(1 << 14, '\0');
    ssize_t n = read(fd, line.data(), line.size());
    close(fd);
    line.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    if (line.find(text) != std::string::npos) found.push_back(std::atoi(name.c_str()));
  }
  return found;
}

}  // namespace dml::e2e
