// dml init: writes settings as a commented recipe.
#pragma once

#include <string>
#include <vector>

#include "pipeline/init_choice.h"

namespace dml {

/// The recipe as YAML with a comment on every choice. `name`: the recipe's file, for the commands in its header.
std::string recipe_text(const ModelFacts& model, const DataFacts& data, const InitChoice& choice,
                        const std::string& name);

/// Lines for the terminal: findings and choices.
std::vector<std::string> describe(const ModelFacts& model, const DataFacts& data, const InitChoice& choice);

/// The command that starts a chat with the result: "dml infer faq.yml --chat".
std::string infer_command_line(const DataFacts& data, const std::string& name);

}  // namespace dml
