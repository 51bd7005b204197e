#include "cli/launching.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "cli/output.h"
#include "core/error.h"
#include "core/log.h"
#include "core/parallel.h"
#include "pipeline/own_ranks.h"
#include "train/progress.h"

namespace dml {
namespace {

LaunchRequest request_of(const LayoutChoice& choice, std::vector<std::string> command) {
  LaunchRequest request;
  request.ranks = choice.layout.ranks;
  request.threads = choice.layout.threads;
  request.pass_threads = false;  // pass_layout_to_ranks() does
  request.command = std::move(command);
  return request;
}

}  // namespace

std::vector<std::string> line_of_ranks(LaunchRequest request) {
  for (const std::string& word : output_options()) request.command.push_back(word);
  request.quiet_launcher = std::ranges::find(output_options(), "--verbose") == output_options().end();
  return launch_line(request, this_host());
}

int run_ranks(const LaunchRequest& request, const std::vector<std::string>& line, bool trains) {
  const int code = run_launcher(line, trains);
  const bool above_signals = code >= 128 + NSIG;
  // MPI ends a process that it cannot initialize with the code of an internal error. mpirun itself fails with that
  // code, too, or with one above those of signals. On one host, mpirun's messages, which would name the cause, are
  // hidden.
  if (code == static_cast<int>(ExitCode::internal) || above_signals)
    if (const std::string problem = launcher_problem(request, this_host()); !problem.empty()) {
      log_error("{}; --verbose shows mpirun's messages, and dml doctor examines this host", problem);
      return static_cast<int>(ExitCode::distributed);
    }
  if (above_signals) {
    log_error("mpirun failed with code {}; --verbose shows its messages", code);
    return static_cast<int>(ExitCode::distributed);
  }
  if (code > 128 && code != 128 + SIGINT && code != 128 + SIGTERM && code != 128 + SIGHUP)
    log_error("a rank was ended by signal {} ({}){}", code - 128, strsignal(code - 128),
              code == 128 + SIGKILL ? "; Linux kills processes when memory runs out" : "");
  return code;
}

int train_on_own_ranks(std::vector<std::string> words, const LayoutChoice& choice) {
  words.insert(words.begin(), "train");
  // Ranks do not see the terminal behind mpirun, so they are told.
  if (progress_mode() == ProgressMode::automatic && terminal_style(STDERR_FILENO).redraw)
    words.push_back("--progress=bar");
  const LaunchRequest request = request_of(choice, std::move(words));
  const std::vector<std::string> line = line_of_ranks(request);
  log_debug("{}", shell_text(line));
  pass_layout_to_ranks(choice);
  set_threads(1);  // signals must reach run_launcher(), not an idle thread
  return run_ranks(request, line, true);
}

LayoutChoice startable(LayoutChoice choice) {
  if (choice.layout.ranks == 1) return choice;
  const LaunchHost host = this_host();
  const std::string problem = launcher_problem(request_of(choice, {}), host);
  return problem.empty() ? choice : LayoutChoice{{1, host.cores}, problem};
}

}  // namespace dml
