// Output of the program: results on stdout, messages on stderr, and the options about messages that every command
// accepts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/page.h"
#include "recipe/recipe.h"
#include "train/progress.h"

namespace dml {

/// Writes to stdout; IoError when that fails (a full disk behind a redirection). If the reader has closed the pipe, the
/// process ends by SIGPIPE, as expected of `dml list | head`.
void print(std::string_view text);

/// UserError when an output is a folder, or when a command would write over one of the files `read` or over one that
/// its recipe reads. `option`: what named the output.
void require_free_output(std::string_view option, const std::string& output, const std::vector<std::string>& read,
                         const RecipeFile* recipe = nullptr);
/// UserError when the place of a page is a folder, or an existing file other than a page (.html).
void require_place_of_page(std::string_view option, const std::string& path);

/// UserError when a directory would get the name of a GGUF file (--format gguf is missing), or, with `gguf`, a GGUF
/// file a name by which it is not known as one when it is read.
void require_name_of_format(std::string_view option, const std::string& output, bool gguf);

struct NoteOptions {
  bool brief = false;    // summarize several notices in one line, unless --verbose is set
  bool missing = false;  // also list named files that do not exist
};
/// Prints notices and warnings of a recipe to stderr.
void show_notes(const RecipeFile& file, NoteOptions options = {});

// ---- --quiet, --verbose, --progress: options of every command, before or after its name

/// If words[i] is one of these options, applies it and moves i to its last word. UserError for an unknown progress
/// mode.
bool take_output_option(const std::vector<std::string>& words, std::size_t& i);
/// The applied options, for a command that starts another one.
const std::vector<std::string>& output_options();
/// How training shows its progress.
ProgressMode progress_mode();
/// The rows of these options for help pages.
std::vector<CommandOption> output_help();

}  // namespace dml
