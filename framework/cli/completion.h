// Shell completions generated from the table of commands and the recipe's field list: commands, their options and
// arguments, values of both, and recipe keys for commands that accept them. The scripts are self-contained; they do not
// call dml.
#pragma once

#include <string>
#include <vector>

namespace dml {

/// "bash", "zsh", "fish".
const std::vector<std::string>& completion_shells();

/// The script for a shell; UserError for an unknown one.
std::string completion_script(const std::string& shell);

}  // namespace dml
