#include "serve/messages.h"

#include <fmt/format.h>

#include "core/shown.h"

namespace dml {
namespace {

constexpr std::size_t kMaxMessages = 4096;

void check_content(Fields& message, const Json& content) {
  if (content.is_string()) return;
  if (!content.is_array())
    message.wrong("content", fmt::format("must be a string or a list of text parts, is {}", content.type_name()));
  for (std::size_t i = 0; i < content.size(); ++i) {
    Fields part(content[i], fmt::format("{}[{}].", message.path("content"), i));
    if (const auto type = part.text("type"); type && *type != "text")
      part.wrong("type", fmt::format("is '{}'; this model reads text only", shown(*type, 40)));
    if (!part.text("text")) part.wrong("text", "is missing");
  }
}

void check_calls(Fields& message, const Json& calls) {
  if (!calls.is_array() || calls.empty()) message.wrong("tool_calls", "must be a list of at least one call");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Fields call(calls[i], fmt::format("{}[{}].", message.path("tool_calls"), i));
    call.text("id"), call.text("type");
    const Json* named = call.find("function");
    if (!named) call.wrong("function", "is missing");
    Fields function(*named, call.path("function") + ".");
    if (function.text("name").value_or("").empty()) function.wrong("name", "is missing");
    const Json* arguments = function.find("arguments");
    if (arguments && !arguments->is_string() && !arguments->is_object())
      function.wrong("arguments", fmt::format("must be a string of JSON or an object, is {}", arguments->type_name()));
  }
}

}  // namespace

Json read_messages(Fields& f, const std::string& chat_template) {
  const Json* given = f.find("messages");
  if (!given) f.wrong("messages", "is missing");
  if (!given->is_array() || given->empty()) f.wrong("messages", "must be a list of at least one message");
  if (given->size() > kMaxMessages)
    f.wrong("messages", fmt::format("has {} entries, may have {}", given->size(), kMaxMessages));
  Json out = *given;
  for (std::size_t i = 0; i < out.size(); ++i) {
    Fields m((*given)[i], f.path("messages") + fmt::format("[{}].", i));
    const auto role = m.text("role");
    if (!role) m.wrong("role", "is missing");
    const Json* calls = m.find("tool_calls");
    if (calls) check_calls(m, *calls);
    if (const Json* content = m.find("content")) check_content(m, *content);
    else if (*role != "assistant" || !calls) m.wrong("content", "is missing");
    m.text("name"), m.text("tool_call_id"), m.text("reasoning_content");
    const auto thought = m.text("reasoning");
    if (thought && !m.has("reasoning_content")) out[i]["reasoning_content"] = *thought;
    out[i].erase("reasoning");
    if (*role == "developer" && chat_template.find("developer") == chat_template.npos) out[i]["role"] = "system";
  }
  return out;
}

}  // namespace dml
