// Shell completions from the table of commands and the recipe's field list: commands, their options and words, the
// values of both, and recipe keys where a command takes them. The scripts are complete in themselves; they do not call
// dml.
#pragma once

#include <string>
#include <vector>

namespace dml {

/// "bash", "zsh", "fish".
const std::vector<std::string>& completion_shells();

/// The script for one of them; UserError for any other.
std::string completion_script(const std::string& shell);

}  // namespace dml
