// The help page of a command. `dml help`, the manual pages and the shell completions are three renderings of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dml {

struct CommandOption {
  std::string name;         // "--prompt", or "RECIPE" for a positional argument
  std::string placeholder;  // placeholder of the value: "TEXT", "DIR", "f32|bf16"; empty: the option takes no value
  std::string help;
  std::vector<std::string> values = {};  // that shells offer, beside those of the placeholder
};

struct CommandPage {
  std::string usage;                   // without "dml "
  std::string about;                   // a paragraph for the manual page
  std::vector<std::string> examples;   // a command line, two or more spaces, and what it does
  std::vector<CommandOption> words;    // positional arguments, in order
  std::vector<CommandOption> options;  // without --help
  bool overrides = false;              // accepts the recipe's keys as options
  bool runs_command = false;           // its arguments are another command with its arguments
};

/// An example split into the command line and what it does (may be empty).
struct CommandExample {
  std::string line, meaning;
};
CommandExample split_example(const std::string& example);

/// How a shell completes a value, derived from its placeholder: parts between '|' in lower case are literal words;
/// FILE, PATH, DIR, RECIPE, COMMAND and KEY stand for existing ones. "auto|DIR|none" is two words or a directory.
struct ValueHint {
  std::vector<std::string> words;
  bool files = false, directories = false, recipes = false, commands = false, keys = false;

  bool empty() const { return words.empty() && !(files || directories || recipes || commands || keys); }
};
ValueHint value_hint(std::string_view placeholder);
/// Of an option's value, or of a positional argument.
ValueHint value_hint(const CommandOption& option);

struct ExitStatus {
  int code;
  std::string meaning;
};
/// All exit statuses of commands.
const std::vector<ExitStatus>& exit_statuses();

/// The page as `dml help COMMAND` prints it.
std::string page_text(const CommandPage& page);

}  // namespace dml
