// The help page of a command. `dml help`, the manual pages and the shell completions are
// three renderings of these values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dml {

struct CommandOption {
  std::string name;         // "--prompt"; of a word without dashes "RECIPE"
  std::string placeholder;  // of its value: "TEXT", "DIR", "f32|bf16"; empty: the option takes no value
  std::string help;
};

struct CommandPage {
  std::string usage;                   // without "dml "
  std::string about;                   // a paragraph for the manual page
  std::vector<std::string> examples;   // a command line; behind two or more spaces, what it does
  std::vector<CommandOption> words;    // in their order
  std::vector<CommandOption> options;  // without --help
  bool overrides = false;              // takes the recipe's keys as options
  bool runs_command = false;           // its words are another command of the table, with that one's words
};

/// An example in two parts: the command line, and what it does (may be empty).
struct Example {
  std::string line, meaning;
};
Example split_example(const std::string& example);

/// How a shell completes a value, from its placeholder: parts between '|' in lower case are spellings; FILE, DIR,
/// RECIPE, COMMAND and KEY stand for what exists. "auto|DIR|none" is two spellings or a directory.
struct ValueHint {
  std::vector<std::string> words;
  bool files = false, directories = false, recipes = false, commands = false, keys = false;

  bool empty() const { return words.empty() && !(files || directories || recipes || commands || keys); }
};
ValueHint value_hint(std::string_view placeholder);

struct ExitStatus {
  int code;
  std::string meaning;
};
/// Every status that a command may end with.
const std::vector<ExitStatus>& exit_statuses();

/// The page as `dml help COMMAND` prints it.
std::string page_text(const CommandPage& page);

}  // namespace dml
