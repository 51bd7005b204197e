// A conversation in the terminal.
#pragma once

#include <string>

#include "core/json.h"
#include "generate/generator.h"

namespace dml {

class Assistant;

/// Reads lines until /exit or the end of the input; answers go to standard output. Ctrl-C ends the current answer, not
/// the program.
void chat(Assistant& assistant);

/// Executes `/set KEY VALUE`. A setting of sampling ends greedy; with beams it is a UserError. UserError with the
/// nearest key, or the range of the value.
void set_generation_option(GenerationOptions& options, const std::string& key, const std::string& value);
/// All keys with their values, one line each.
std::string generation_options_text(const GenerationOptions& options);

/// Removes the last question and everything after it; false if there is none.
bool undo_exchange(Json& messages);

}  // namespace dml
