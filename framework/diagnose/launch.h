// dml launch: builds the mpirun command that binds ranks and their threads to cores as training needs it, and
// supervises it. Plain mpirun binds each of one or two ranks to a single core, whatever its number of threads; this
// file avoids that and similar traps.
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
  bool pass_threads = true;                   // add `threads` to the command's arguments
  bool quiet_launcher = true;                 // on one host: suppress mpirun's repetition of a rank's error
  std::vector<std::string> command = {};      // the arguments after "dml"
};

/// The resources of a host.
struct LaunchHost {
  std::int64_t cores = 1;  // physical cores that this process may use
  bool root = false;       // whether this is root, which mpirun refuses by default
  std::string program;     // path of dml
  bool whole =
      true;  // this process may use all cores; binding is only possible then, since mpirun counts cores from the first
  std::int64_t numa_nodes = 1;
};
LaunchHost this_host();

/// The command line as arguments, "mpirun" first. UserError for a contradictory request.
std::vector<std::string> launch_line(const LaunchRequest& request, const LaunchHost& host);
/// Whether the words after "dml" train, so that signals save and stop.
bool is_training(const std::vector<std::string>& command);
/// Removes --resume from words of dml train, as --resume VALUE or --resume=VALUE. Returns its value, the last of
/// several.
std::optional<std::string> take_resume(std::vector<std::string>& words);
/// The argument with which dml starts communication between its ranks and ends.
inline constexpr const char* kTrialRank = "--trial-rank";
/// Why the launcher cannot start ranks here, determined by starting some that only begin to communicate; "" if it can.
std::string launcher_problem(LaunchRequest request, const LaunchHost& host);
/// Joins arguments into one command line, quoted for a shell.
std::string shell_text(const std::vector<std::string>& words);
/// Runs the command and returns its exit code, or 128 + N if signal N ended it. UserError when it cannot be started.
/// Signals that this process receives are forwarded. With `saves_on_stop` (training), INT, TERM and HUP are forwarded
/// as USR2, on which all ranks save and stop with ExitCode::stopped; mpirun itself would kill them within a second. A
/// second INT ends the job at once. The command ends when this process does.
int run_launcher(const std::vector<std::string>& words, bool saves_on_stop);

}  // namespace dml
