// Instruction formats as a table: a row defines how the columns of a record are laid out as prompt and answer. Texts
// and column names are those of Axolotl's formats of the same name, so its recipes train the same tokens.
#pragma once

#include <string>
#include <vector>

namespace dml {

struct InstructionFormat {
  std::string name, help;
  std::string without_input,
      with_input;                   // layouts of the turn (prompt/layout.h); with_input "": the format has no input
  std::string answer = "{output}";  // the trained part
  std::string input = "input";      // the column that selects the layout: without_input if it is missing or empty
  std::string system_column = {};   // column of the system text
  std::string system_default = {};  // system text of rows without that column
  std::string system_layout = {};   // layout of the system text ({system}), unless it is empty
  bool joint = false;               // prompt and answer are tokenized together
  int ends = 1;                     // number of EOS tokens after the answer
  bool lenient = false;             // a null counts as an empty text
};

const std::vector<InstructionFormat>& instruction_formats();

}  // namespace dml
