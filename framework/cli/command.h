// The command table: name, one-line summary, help page with examples, and function. The dispatcher, `dml help`, the
// manual pages, the shell completions and the tests read the same rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/page.h"

namespace dml {

/// On how many ranks of mpirun or srun a command runs.
enum class Ranks { one, many };

struct Command {
  std::string name, summary;
  std::function<CommandPage()> page;
  /// Runs the command with the arguments after its name; returns the exit code.
  std::function<int(const std::vector<std::string>& words)> run;
  Ranks ranks = Ranks::one;
};

const std::vector<Command>& commands();

/// Runs "dml WORDS…": finds the command, and turns exceptions into one line on stderr and an exit code.
int run_command_line(const std::vector<std::string>& words);

}  // namespace dml
