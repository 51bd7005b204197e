// What a chat model wrote, taken apart: reasoning, content, and calls of tools in the form that its family writes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace dml {

/// How a family writes calls of tools.
enum class ToolStyle {
  none,
  hermes,   // <tool_call>{"name": …, "arguments": {…}}</tool_call>, any number of them (Hermes, Qwen)
  mistral,  // [TOOL_CALLS][{"name": …, "arguments": {…}}], or [TOOL_CALLS]name[ARGS]{…}
  llama     // the whole reply is {"name": …, "parameters": {…}}, perhaps after <|python_tag|>
};
/// By what the chat template says; none where it knows no tools.
ToolStyle tool_style(const std::string& chat_template);

struct ToolCall {
  std::string name, arguments;  // arguments: JSON text
};

class ReplyParser {
 public:
  struct Format {
    ToolStyle tools = ToolStyle::none;
    bool reasoning = false;         // <think> … </think> in front is reasoning
    bool inside_reasoning = false;  // the prompt has opened it
    bool inside_call = false;       // … or a call: the reply begins after the mark
  };
  explicit ReplyParser(const Format& format);

  struct Piece {
    std::string content, reasoning;
    std::vector<ToolCall> calls;
  };
  /// What is certain after some more text: the beginning of a mark is held back.
  Piece push(std::string_view text);
  /// The rest. A call that is not complete is content.
  Piece finish();

 private:
  enum class State { start, reasoning, content, call, whole };
  bool step(Piece& out);
  bool step_start();
  // Enters a state behind `skip` bytes of the pending text; true.
  bool become(State next, std::size_t skip);
  // Moves the first `size` bytes of the pending text to `to`, without the blanks of a gap.
  void give(std::string& to, std::size_t size);
  // Gives the text before a mark and enters the next state after it; without a mark, gives what is certain:
  // false.
  bool give_until(std::string& to, std::string_view mark, State next);
  std::optional<std::vector<ToolCall>> calls_in(std::string_view text) const;
  std::size_t safe(std::string_view mark) const;

  Format format_;
  State state_;
  std::string pending_;
  bool gap_ = false;  // skipping blanks between reasoning and content, or after a call
};

}  // namespace dml
