// Lines typed by a person: on a terminal with editing and history, from a pipe as they come.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace dml {

class LineEditor {
 public:
  /// Reads standard input. Prompts go to standard error, so that standard output holds results alone.
  LineEditor();
  ~LineEditor();

  /// The next line without its newline; nothing at the end of the input. An interrupt (Ctrl-C) gives an empty line.
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dml
