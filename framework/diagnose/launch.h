// dml launch: composes the mpirun line that binds ranks and their threads to cores as training needs it, and supervises
// it. Plain mpirun binds one or two ranks to one core each, whatever their threads; this file knows that and the other
// traps.
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
  bool pass_threads = true;                   // adds `threads` to the command's words
  bool quiet_launcher = true;                 // on one host: mpirun does not repeat what a rank has said
  std::vector<std::string> command = {};      // the words after "dml"
};

/// The resources of a host.
struct LaunchHost {
  std::int64_t cores = 1;  // physical cores this process may use
  bool root = false;       // mpirun refuses root unless told
  std::string program;     // path of dml
  bool whole = true;       // all of the host's cores: mpirun counts from the first, so ranks can be bound
  std::int64_t numa_nodes = 1;
};
LaunchHost this_host();

/// The words of the command line, "mpirun" first. UserError when the request makes no sense.
std::vector<std::string> launch_line(const LaunchRequest& request, const LaunchHost& host);
/// Why the launcher of such a line starts no ranks here, found by starting some that do nothing; "" when it does.
std::string launcher_problem(const LaunchRequest& request, LaunchHost host);
/// The words as one command line, quoted for a shell.
std::string shell_text(const std::vector<std::string>& words);
/// Starts the line and waits for its end; returns its exit code, or 128 + N when signal N ended it. UserError when it
/// cannot be started. Signals that reach this process are passed on. With `saves_on_stop` (training), INT, TERM and HUP
/// become USR2, on which all ranks save and stop with ExitCode::stopped: mpirun itself would kill them within a second.
/// A second INT ends the job at once. The line ends with this process.
int run_launcher(const std::vector<std::string>& words, bool saves_on_stop);

/// Whether this process is a rank that mpirun or srun started.
bool is_started_rank();

}  // namespace dml
