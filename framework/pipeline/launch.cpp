#include "pipeline/launch.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/parallel.h"

namespace dml {
namespace {

void append(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

// Two hardware threads of one core count as one: a product fills the core's vector units from one of them.
std::int64_t physical_cores() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return available_cores();
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mine)) continue;
    std::string path = fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu);
    std::string siblings;  // no regular file: its size is not known before
    std::ifstream file(path);
    cores.insert(std::getline(file, siblings) ? siblings : fmt::format("{}", cpu));
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(cores.size()));
}

}  // namespace

LaunchHost this_host() {
  char path[4096] = "dml";
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return {physical_cores(), geteuid() == 0, n > 0 ? std::string(path, static_cast<std::size_t>(n)) : "dml"};
}

std::vector<std::string> launch_line(const LaunchRequest& request, const LaunchHost& host) {
  if (request.command.empty()) throw UserError("launch: what is to be started? dml launch -n 2 train recipe.yml");
  if (request.command[0] == "launch") throw UserError("launch: dml launch cannot start itself");
  if (request.ranks && *request.ranks < 1) throw UserError("launch: -n {}: expected at least 1", *request.ranks);
  if (request.threads && *request.threads < 1)
    throw UserError("launch: --threads {}: expected at least 1", *request.threads);

  std::vector<std::string> line{"mpirun"};
  if (host.root) append(line, {"--allow-run-as-root"});
  if (request.hostfile) {
    if (!file_exists(*request.hostfile))
      throw UserError("--hostfile {}: no such file; one line a host: NAME slots=RANKS", *request.hostfile);
    append(line, {"--hostfile", *request.hostfile});
    if (request.ranks) append(line, {"-np", std::to_string(*request.ranks)});
    // How many cores the other hosts have is theirs to know: without a number of threads, ranks share what they find.
    if (request.threads) append(line, {"--map-by", fmt::format("slot:PE={}", *request.threads), "--bind-to", "core"});
    else append(line, {"--bind-to", "none"});
    append(line, {"--mca", "btl", "self,vader,tcp"});
    if (request.interface)
      append(line,
             {"--mca", "btl_tcp_if_include", *request.interface, "--mca", "oob_tcp_if_include", *request.interface});
  } else {
    std::int64_t ranks = request.ranks.value_or(host.cores),
                 threads = request.threads.value_or(std::max<std::int64_t>(1, host.cores / ranks));
    append(line, {"-np", std::to_string(ranks)});
    if (ranks * threads > host.cores)
      // A rank that waits must leave its core to one that computes.
      append(line, {"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"});
    else if (ranks == 1) append(line, {"--bind-to", "none"});
    else append(line, {"--map-by", fmt::format("slot:PE={}", threads), "--bind-to", "core"});
    append(line, {"--mca", "btl", "self,vader"});
  }
  append(line, {host.program});
  line.insert(line.end(), request.command.begin(), request.command.end());
  if (request.threads) append(line, {"--threads", std::to_string(*request.threads)});
  return line;
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

void become(const std::vector<std::string>& words) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"})
    if (std::getenv(name))
      throw UserError("launch: this already is a rank (of mpirun or srun); start dml train there, without dml launch");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw UserError("{}: cannot be started: {}{}", words[0], std::strerror(errno),
                  errno == ENOENT ? "; is Open MPI installed (openmpi-bin)?" : "");
}

}  // namespace dml
