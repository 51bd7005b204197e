// Instruction formats are data: one row says how the columns of a record are laid out as a prompt and an answer.
// Layout texts and column names are those of Axolotl's formats of the same name, so that its recipes train the same
// tokens.
#pragma once

#include <string>
#include <vector>

namespace dml {

struct InstructionFormat {
  std::string name, help;
  std::string without_input, with_input;  // layouts of the turn (prompt/layout.h); with_input "": there is no input
  std::string answer = "{output}";        // what is trained
  std::string input = "input";            // the column that chooses between the two: missing or empty is "without"
  std::string system_column = {};         // text of the row that comes first …
  std::string system_default = {};        // … or this where the row has no such column …
  std::string system_layout = {};         // … laid out so ({system}), unless it is empty
  bool joint = false;                     // prompt and answer are tokenised in one go
  int ends = 1;                           // eos after the answer
  bool lenient = false;                   // missing columns are empty
};

const std::vector<InstructionFormat>& instruction_formats();

}  // namespace dml
