// Chat templates that come with dml, as data. They render what the models' own templates render for conversations of
// plain text and, where the model knows tools, for tool calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dml {

struct ChatFormat {
  std::string name, help;
  std::string source;      // Jinja
  std::string terminator;  // what ends a turn, when that is not the tokenizer's eos token
};

/// In the order of `dml list`.
const std::vector<ChatFormat>& chat_formats();
/// nullptr when there is none of this name.
const ChatFormat* find_chat_format(std::string_view name);

}  // namespace dml
