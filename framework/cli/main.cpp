// The program: its arguments go to the table of commands, which returns the exit code.
#include <csignal>
#include <string>
#include <vector>

#include "cli/command.h"

int main(int argc, char** argv) {
  // A closed pipe or a file size limit must not end a run: the write returns an error instead.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  return dml::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
}
