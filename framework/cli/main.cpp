// The program: its arguments go to the table of commands, which returns the exit code.
#include <fcntl.h>

#include <csignal>
#include <string>
#include <vector>

#include "cli/command.h"

namespace {

// Standard streams that the caller has closed: files that are opened later would get their numbers, and messages.
// Writing to such a stream remains an error.
void open_standard_streams() {
  for (int stream : {0, 1, 2})
    if (fcntl(stream, F_GETFD) == -1) open("/dev/null", stream == 1 ? O_RDONLY : O_RDWR);  // gets the lowest number
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  // A closed pipe or a file size limit must not end a run: the write returns an error instead.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  return dml::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
}
