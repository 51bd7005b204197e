#include "e2e/child.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
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

// A file of /proc about a process; "" if it has ended. Its files have no size, so read_file() cannot read them.
std::string of_process(pid_t process, const char* file) {
  int fd = open(fmt::format("/proc/{}/{}", process, file).c_str(), O_RDONLY);
  if (fd < 0) return "";
  std::string text(1 << 14, '\0');
  ssize_t n = read(fd, text.data(), text.size());
  close(fd);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace

void reset_signals() {
  for (int number : {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2}) std::signal(number, SIG_DFL);
}

Child::Child(const Words& words, const Surroundings& around)
    : around_(around), scratch_(make_scratch()), started_(now()) {
  write_file(scratch_ + "/in", around.input);
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  DML_CHECK(pid_ >= 0);
  setpgid(pid_, 0);  // by both, whoever comes first: the group is there when either goes on
  if (pid_ > 0) return;
  reset_signals();
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

bool Child::has_said(const std::string& text) const {
  const std::string path = scratch_ + "/err";
  return file_exists(path) && read_file(path).find(text) != std::string::npos;
}

Ended Child::wait(const std::string& job) {
  constexpr double kLookEvery = 2, kWayIn = 120, kWayOut = 30;  // seconds
  Ended e;
  double look = now() + kLookEvery, given_up = now() + kWayIn;
  int status = 0;
  rusage use{};
  while (wait4(pid_, &status, WNOHANG, &use) == 0) {
    if (now() - started_ > around_.timeout && !e.timed_out) {
      e.timed_out = true;
      kill(-pid_, SIGKILL);
    }
    if (!job.empty() && now() > look && !e.locked_up) {
      if (!ranks_with(job).empty()) given_up = now() + kWayOut;
      e.locked_up = now() > given_up;
      if (e.locked_up) kill(-pid_, SIGKILL);
      look = now() + kLookEvery;
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
    const pid_t process = std::atoi(name.c_str());
    if (of_process(process, "cmdline").find(text) != std::string::npos) found.push_back(process);
  }
  return found;
}

std::vector<pid_t> ranks_with(const std::string& text) {
  std::vector<pid_t> ranks = processes_with(text);
  std::erase_if(ranks, [](pid_t process) {
    std::error_code gone;
    return fs::read_symlink(fmt::format("/proc/{}/exe", process), gone).filename() != "dml";
  });
  return ranks;
}

bool soon(const std::function<bool()>& reached) {
  for (double start = now(); now() < start + kPatience; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
    if (reached()) return true;
  return reached();
}

pid_t stopped_rank(const std::string& text) {
  pid_t found = 0;
  soon([&] {
    for (pid_t rank : ranks_with(text))
      if (of_process(rank, "status").find("State:\tT") != std::string::npos) found = rank;
    return found != 0;
  });
  return found;
}

bool has_pending(pid_t process, int signal) {
  const std::string status = of_process(process, "status"), key = "ShdPnd:\t";
  const std::size_t at = status.find(key);
  return at != std::string::npos && (std::stoull(status.substr(at + key.size(), 16), nullptr, 16) >> (signal - 1) & 1);
}

}  // namespace dml::e2e
