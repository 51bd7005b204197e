// dml man, dml completion: the table of commands for man(1) and shells.
#include "cli/completion.h"
#include "cli/man.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"

namespace dml {
namespace {

struct Man {
  std::string what;
  std::optional<std::string> all;
  Options options{"man",
                  "man [COMMAND | recipe] [--all DIR]",
                  {"dml man train | man -l -   read the page of a command",
                   "dml man recipe | man -l -  read the page of the recipe's keys",
                   "dml man --all man1         write every page into a directory"}};
  Man() {
    options.about(
        "Writes a manual page in roff to standard output. The Debian package installs all pages: man dml, man "
        "dml-train, man dml-recipe.");
    options.positional("COMMAND|recipe", what, "the command, or the recipe's keys; without it, the page of dml itself",
                       false);
    options.text("all", all, "write every page into this directory", "DIR");
  }
};

int man(const std::vector<std::string>& words) {
  Man m;
  m.options.parse(words);
  if (m.all && !m.what.empty()) throw UserError("dml man takes either a page or --all DIR");
  if (!m.all) {
    print(man_page(m.what).roff);
    return 0;
  }
  make_directories(*m.all);
  for (const ManPage& page : man_pages()) write_file(*m.all + "/" + page.file, page.roff);
  return 0;
}

struct Completion {
  std::string shell;
  Options options{"completion",
                  "completion bash|zsh|fish",
                  {"source <(dml completion bash)                                    this bash session only",
                   "dml completion bash > ~/.local/share/bash-completion/completions/dml  every bash session",
                   "dml completion fish > ~/.config/fish/completions/dml.fish        every fish"}};
  Completion() {
    options.about(
        "Writes a script to standard output that lets a shell complete commands, options, file names, recipe keys and "
        "their values. The Debian package installs the scripts. For zsh, write the script to a file named _dml in a "
        "directory of fpath.");
    options.positional("bash|zsh|fish", shell, "the shell");
  }
};

int completion(const std::vector<std::string>& words) {
  Completion c;
  c.options.parse(words);
  print(completion_script(c.shell));
  return 0;
}

}  // namespace

Command man_command() {
  return {"man", "prints the manual page of a command", [] { return Man().options.page(); }, man};
}
Command completion_command() {
  return {"completion", "prints a script that completes dml's commands in a shell",
          [] { return Completion().options.page(); }, completion};
}

}  // namespace dml
