// Output of the program: results on stdout, the amount of messages on stderr, and the options for that which every
// command has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/page.h"
#include "recipe/recipe.h"
#include "train/progress.h"

namespace dml {

/// Writes to stdout; IoError when that fails (a full disk behind a redirection). When the reader has gone, the process
/// ends by SIGPIPE, as `dml list | head` should.
void print(std::string_view text);

/// Notices and warnings of a recipe, to stderr. `brief`: several notices become one line, unless --verbose is set;
/// `missing`: also files that it names and that do not exist.
void show_notes(const RecipeFile& file, bool brief = false, bool missing = true);

// ---- --quiet, --verbose, --progress: options of every command, before or after its name

/// Applies words[i] when it is one of them and moves i to its last word. UserError for an unknown progress mode.
bool take_output_option(const std::vector<std::string>& words, std::size_t& i);
/// Those that were applied, for a command that starts another one.
const std::vector<std::string>& output_options();
/// How training shows its progress.
ProgressMode progress_mode();
/// Their rows of a help page.
std::vector<CommandOption> output_help();

}  // namespace dml
