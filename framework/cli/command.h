// The command table: a name, a line of help, a page of help with examples, and what it does. The dispatcher, `dml
// help`, the manual pages, the shell completions and the tests read the same rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/page.h"

namespace dml {

struct Command {
  std::string name, summary;
  std::function<CommandPage()> page;
  /// Takes the words after the command's name; returns the exit code.
  std::function<int(const std::vector<std::string>& words)> run;
};

const std::vector<Command>& commands();

/// Runs "dml WORDS…": finds the command, turns exceptions into one line on stderr and an exit code.
int run_command_line(const std::vector<std::string>& words);

}  // namespace dml
