// The command table: a name, a line of help, a page of help with examples, and what it does. `dml help`, the tests and the
// dispatcher read the same rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dml {

struct Command {
  std::string name, summary;
  /// Lines of the page: usage first, then examples, then options.
  std::function<std::string()> page;
  /// Gets the words behind the command's name; gives the exit code.
  std::function<int(const std::vector<std::string>& words)> run;
};

const std::vector<Command>& commands();

/// Runs "dml WORDS…": finds the command, turns exceptions into one line on stderr and an exit code.
int run_command_line(const std::vector<std::string>& words);

}  // namespace dml
