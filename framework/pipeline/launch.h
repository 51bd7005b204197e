// dml launch: the mpirun line that puts ranks and their threads on cores the way training wants it. Plain mpirun binds
// one or two ranks to one core each, whatever their threads; this is where that and the other traps are known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dml {

struct LaunchRequest {
  std::optional<std::int64_t> ranks = {};     // unset: one per core here; with a hostfile, its slots
  std::optional<std::string> hostfile = {};   // lines "HOST slots=N"; unset: this host alone
  std::optional<std::string> interface = {};  // network interface between hosts, like eth0
  std::optional<std::int64_t> threads = {};   // per rank; unset: the host's cores shared among its ranks
  std::vector<std::string> command = {};      // the words behind "dml"
};

/// What a host offers to ranks.
struct LaunchHost {
  std::int64_t cores = 1;  // physical cores this process may use
  bool root = false;       // mpirun refuses root unless told
  std::string program;     // path of dml
};
LaunchHost this_host();

/// The words of the command line, "mpirun" first. UserError when the request makes no sense.
std::vector<std::string> launch_line(const LaunchRequest& request, const LaunchHost& host);
/// The same, quoted for a shell.
std::string shell_text(const std::vector<std::string>& words);
/// Becomes that command. UserError when it cannot be started.
[[noreturn]] void become(const std::vector<std::string>& words);

}  // namespace dml
