#include "diagnose/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/affinity.h"
#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"
#include "core/text.h"
#include "core/topology.h"
#include "dist/comm.h"
#include "dist/started_rank.h"

namespace dml {
namespace {

void append(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

// As many ranks on this host as were asked for, else as many as its cores are enough for.
std::int64_t ranks_of(const LaunchRequest& request, const LaunchHost& host) {
  return request.ranks.value_or(std::max<std::int64_t>(1, host.cores / request.threads.value_or(1)));
}

constexpr const char* kHostLine = "expected one line per host: NAME slots=RANKS";

// Whether Open MPI's hostfiles have such a setting of a host. mpirun ends with an internal error for others.
bool is_host_setting(std::string_view key, std::string_view value) {
  constexpr std::string_view kCounts[] = {"slots", "max_slots", "max-slots", "slots_max", "slots-max", "count",
                                          "cpu",   "cpu_max",   "cpu-max",   "count_max", "count-max", "port"};
  constexpr std::string_view kNames[] = {"username", "user_name", "user-name"};
  if (std::ranges::find(kNames, key) != std::ranges::end(kNames)) return !value.empty();
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  return std::ranges::find(kCounts, key) != std::ranges::end(kCounts) && error == std::errc() &&
         end == value.data() + value.size() && count > 0;
}

// Whether a line of a hostfile is a name and, after it, settings as "key=value" or "key = value".
bool is_host(std::string_view line) {
  const std::size_t name = line.find_first_of(" \t");
  if (line.substr(0, name).ends_with(':')) return false;  // a key of YAML
  for (std::string_view rest = trim(line.substr(std::min(name, line.size()))); !rest.empty();) {
    const std::size_t equals = rest.find('=');
    if (equals == rest.npos) return false;
    const std::string_view key = trim(rest.substr(0, equals));
    rest = trim(rest.substr(equals + 1));
    const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    if (!is_host_setting(key, rest.substr(0, end))) return false;
    rest = trim(rest.substr(end));
  }
  return true;
}

// UserError if the file is not there, names no host or is something else.
void check_hostfile(const std::string& path) {
  if (!file_exists(path)) throw UserError("--hostfile {}: no such file; {}", path, kHostLine);
  const std::string text = read_file(path);
  bool any = false;
  for (const auto [number, line] : Lines(text)) {
    const std::string_view host = trim(line.substr(0, line.find('#')));
    if (!is_host(host)) throw UserError("--hostfile {}:{}: this line is not a host; {}", path, number, kHostLine);
    any |= !host.empty();
  }
  if (!any) throw UserError("--hostfile {}: the file names no hosts; {}", path, kHostLine);
}

}  // namespace

LaunchHost this_host() {
  char path[4096] = "dml";
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  const Topology shape = this_topology();
  const bool whole = shape.processors >= sysconf(_SC_NPROCESSORS_ONLN) && shape.cores <= available_cores();
  return {available_cores(), geteuid() == 0, n > 0 ? std::string(path, static_cast<std::size_t>(n)) : "dml", whole,
          std::max(1, shape.numa_nodes)};
}

std::vector<std::string> launch_line(const LaunchRequest& request, const LaunchHost& host) {
  if (request.command.empty())
    throw UserError("launch needs a command to start, as in: dml launch -n 2 train recipe.yml");
  if (request.command[0] == "launch") throw UserError("launch: dml launch cannot start itself");
  if (request.ranks && *request.ranks < 1) throw UserError("launch: -n {}: expected at least 1", *request.ranks);
  if (request.threads && *request.threads < 1)
    throw UserError("launch: --threads {}: expected at least 1", *request.threads);

  std::vector<std::string> line{"mpirun"};
  // mpirun's messages are shown with several hosts: unreachable hosts, missing slots.
  if (request.quiet_launcher && !request.hostfile) append(line, {"--quiet"});
  if (host.root) append(line, {"--allow-run-as-root"});
  if (request.hostfile) {
    check_hostfile(*request.hostfile);
    append(line, {"--hostfile", *request.hostfile});
    if (request.ranks) append(line, {"-np", std::to_string(*request.ranks)});
    // The number of cores of the other hosts is unknown here: without --threads, ranks share the cores they find.
    if (request.threads) append(line, {"--map-by", fmt::format("slot:PE={}", *request.threads), "--bind-to", "core"});
    else append(line, {"--bind-to", "none"});
    append(line, {"--mca", "btl", "self,vader,tcp"});
    if (request.interface)
      append(line,
             {"--mca", "btl_tcp_if_include", *request.interface, "--mca", "oob_tcp_if_include", *request.interface});
  } else {
    std::int64_t ranks = ranks_of(request, host),
                 threads = request.threads.value_or(std::max<std::int64_t>(1, host.cores / ranks));
    append(line, {"-np", std::to_string(ranks)});
    if (ranks * threads > host.cores)
      // A rank that waits must yield its core to one that computes.
      append(line, {"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"});
    else if (ranks == 1 || !host.whole) append(line, {"--bind-to", "none"});
    else {
      // Neighbors share caches and NUMA nodes; where cores are left over, every node has its ranks.
      const bool spread = host.numa_nodes > 1 && ranks >= host.numa_nodes && ranks * threads <= host.cores / 2;
      append(line, {"--map-by", fmt::format("{}:PE={}", spread ? "numa" : "slot", threads), "--bind-to", "core"});
    }
    // Without other hosts the remote shell is not needed, and mpirun refuses to start where none is installed.
    append(line, {"--mca", "btl", "self,vader", "--mca", "plm", "^rsh"});
  }
  append(line, {host.program});
  line.insert(line.end(), request.command.begin(), request.command.end());
  if (request.threads && request.pass_threads) append(line, {"--threads", std::to_string(*request.threads)});
  return line;
}

bool is_training(const std::vector<std::string>& command) {
  return !command.empty() && (command[0] == "train" || command[0] == "resume");
}

std::optional<std::string> take_resume(std::vector<std::string>& words) {
  constexpr std::string_view kOption = "--resume";
  std::optional<std::string> value;
  for (auto word = words.begin(); word != words.end();) {
    const bool apart = *word == kOption && word + 1 != words.end();
    if (!apart && !word->starts_with(std::string(kOption) + "=")) {
      ++word;
      continue;
    }
    value = apart ? word[1] : word->substr(kOption.size() + 1);
    word = words.erase(word, word + (apart ? 2 : 1));
  }
  return value;
}

std::string launcher_problem(LaunchRequest request, const LaunchHost& host) {
  request.command = {kTrialRank};
  request.pass_threads = false;
  std::vector<std::string> line{"timeout", "30"};  // seconds
  for (const std::string& word : launch_line(request, host)) line.push_back(word);
  const int status = std::system((shell_text(line) + " </dev/null >/dev/null 2>&1").c_str());
  if (status == 0) return "";
  constexpr int kNoProgram = 127;  // of timeout, and of shells
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoProgram) return "mpirun is not there";
  if (request.hostfile) return fmt::format("mpirun cannot start ranks on the hosts of {}", *request.hostfile);
  const std::int64_t ranks = ranks_of(request, host);
  return fmt::format("mpirun cannot start {} rank{} here", ranks, ranks == 1 ? "" : "s");
}

std::string shell_text(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=:,@%+";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

int run_launcher(const std::vector<std::string>& words, bool saves_on_stop) {
  if (is_started_rank())
    throw UserError("this process is already a rank of mpirun or srun; start 'dml train' there, without 'dml launch'");
  refuse_tasks_without_mpi();
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  sigset_t watched, before;
  sigemptyset(&watched);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD}) sigaddset(&watched, number);
  sigprocmask(SIG_BLOCK, &watched, &before);
  int failure[2];  // errno of the child where the program cannot be started
  if (pipe2(failure, O_CLOEXEC) != 0) throw IoError("launch", "cannot create a pipe");
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw IoError("launch", "cannot start a process");
  if (child == 0) {
    setpgid(0, 0);  // Ctrl-C in the terminal is sent to this process only
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (getppid() == parent) execvp(arguments[0], arguments.data());
    const int error = errno;
    _exit(::write(failure[1], &error, sizeof error) > 0 ? 127 : 126);
  }
  close(failure[1]);
  int error = 0;
  const bool failed = read(failure[0], &error, sizeof error) == sizeof error;
  close(failure[0]);

  int status = 0, stopped_by = 0;
  bool at_once = false;
  while (true) {
    siginfo_t info{};
    const int number = failed ? SIGCHLD : sigwaitinfo(&watched, &info);
    if (number == SIGCHLD) {
      if (waitpid(child, &status, failed ? 0 : WNOHANG) == child) break;
    } else if (number == SIGTSTP) {
      kill(child, SIGTSTP);
      raise(SIGSTOP);
      kill(child, SIGCONT);
    } else if (number == SIGUSR1 || number == SIGUSR2) {
      kill(child, number);
    } else if (number > 0) {
      at_once = at_once || !saves_on_stop || (stopped_by == SIGINT && number == SIGINT);
      kill(child, saves_on_stop ? at_once ? SIGTERM : SIGUSR2 : number);
      stopped_by = number;
    }
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (failed)
    throw UserError("{}: cannot be started: {}{}", words[0], std::strerror(error),
                    error != ENOENT        ? ""
                    : words[0] == "sbatch" ? "; is Slurm installed (package slurm-client)?"
                                           : "; is Open MPI installed (package openmpi-bin)?");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  // Before training begins USR2 is not handled: there is nothing to save.
  if (stopped_by != 0 && code != 0 && (at_once || code == 128 + SIGUSR2)) return 128 + stopped_by;
  return code;
}

}  // namespace dml
