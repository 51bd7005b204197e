// The program: its words to the table of commands, the answer as exit code.
#include <string>
#include <vector>

#include "cli/command.h"

int main(int argc, char** argv) { return dml::run_command_line(std::vector<std::string>(argv + 1, argv + argc)); }
