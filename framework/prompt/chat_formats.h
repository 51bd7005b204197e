// The built-in chat templates. They render plain conversations, and tool calls where the model supports tools, like the
// models' own templates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dml {

struct ChatFormat {
  std::string name, help;
  std::string source;      // Jinja
  std::string terminator;  // the end-of-turn token if it is not EOS
};

/// In the order of `dml list`.
const std::vector<ChatFormat>& chat_formats();
std::vector<std::string> chat_format_names();
/// The template of this name; null if there is none.
const ChatFormat* find_chat_format(std::string_view name);

}  // namespace dml
