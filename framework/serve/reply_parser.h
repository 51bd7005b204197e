// Parses the reply of a chat model into reasoning, content and tool calls, in the format of its family.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

/// The format of tool calls.
enum class ToolStyle {
  none,
  hermes,   // <tool_call>{"name": …, "arguments": {…}}</tool_call>, any number of them (Hermes, Qwen)
  mistral,  // [TOOL_CALLS][{"name": …, "arguments": {…}}], or [TOOL_CALLS]name[ARGS]{…}
  llama     // the whole reply is {"name": …, "parameters": {…}}, optionally after <|python_tag|>
};
/// The format that a chat template uses; none if it renders no tools, or calls in another form.
ToolStyle tool_style(const std::string& chat_template);

struct ToolCall {
  std::string name, arguments;  // arguments: JSON text
};

class ReplyParser {
 public:
  struct Format {
    ToolStyle tools = ToolStyle::none;
    bool reasoning = false;         // the reply may begin with reasoning, <think> … </think>
    bool inside_reasoning = false;  // the prompt ends with <think>
    bool inside_call = false;       // the prompt ends with the tag that opens a call
    bool either = false;            // the reply is text or calls, not text and then calls
  };
  explicit ReplyParser(const Format& format);

  struct Piece {
    std::string content, reasoning;
    std::vector<ToolCall> calls;
  };
  /// Adds text; returns the parts that are final. A prefix of a tag is held back.
  Piece push(std::string_view text);
  /// Returns the rest at the end of the reply. `cut`: the model did not end it itself (a limit or a stop string did),
  /// so a call that it had begun is left out; otherwise text that is not a call is content.
  Piece finish(bool cut = false);
  /// Whether the text so far ends inside the reasoning.
  bool thinking() const { return state_ == State::reasoning; }

 private:
  enum class State { start, reasoning, content, call, whole };
  bool step(Piece& out);
  bool step_start();
  // Drops `skip` pending bytes and switches to a state. Returns true.
  bool enter(State next, std::size_t skip);
  // Moves the first `size` pending bytes to `to`, without the whitespace of a gap.
  void give(std::string& to, std::size_t size);
  // Moves the text before a tag to `to` and switches to `next` after it. Without a tag: moves the part that is final
  // and returns false.
  bool give_until(std::string& to, std::string_view mark, State next);
  // None where the text is something else than calls; with `cut`, the calls that are complete.
  std::optional<std::vector<ToolCall>> calls_in(std::string_view text, bool cut = false) const;
  // The mark that begins a call.
  std::string_view call_mark() const;
  void finish_call(Piece& out, bool cut);
  std::size_t safe(std::string_view mark) const;

  Format format_;
  State state_;
  std::string pending_;
  bool gap_ = false;  // skipping whitespace between reasoning and content, or after a call
};

}  // namespace dml
