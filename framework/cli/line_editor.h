// Reads lines of input: with editing and history on a terminal, unchanged from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace dml {

class LineEditor {
 public:
  /// Reads standard input. Prompts go to standard error, so that standard output contains only results.
  LineEditor();
  ~LineEditor();

  /// The next line without its newline; empty at the end of the input. An interrupt (Ctrl-C) gives an empty line.
  std::optional<std::string> read(const std::string& prompt);
  /// Whether the last read() ended with an interrupt.
  bool interrupted() const { return interrupted_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  bool interrupted_ = false;
};

}  // namespace dml
