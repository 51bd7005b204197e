// Rows that are conversations in another form: columns of a table, and ChatGPT's export. Each is converted to a row
// with a list of messages and then handled like any conversation.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/shown.h"
#include "core/text.h"
#include "prompt/chat_template.h"
#include "prompt/layout.h"
#include "prompt/strategies.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

const char* const kMessages = "messages";

class Reshaped : public PromptStrategy {
 public:
  using Reshape = std::function<Json(const Json& record, bool prompt)>;
  Reshaped(std::unique_ptr<PromptStrategy> chat, Reshape reshape, std::string name, std::string detail,
           std::string version = "")
      : chat_(std::move(chat)),
        reshape_(std::move(reshape)),
        name_(std::move(name)),
        detail_(std::move(detail)),
        version_(std::move(version)) {}

  std::vector<Rendered> render(const Json& record) const override { return chat_->render(reshape_(record, false)); }
  Rendered prompt(const Json& record) const override {
    return chat_->prompt(record.contains(kMessages) ? record : reshape_(record, true));
  }
  void add_answer(Rendered& prompt, std::string_view answer) const override { chat_->add_answer(prompt, answer); }
  std::string fingerprint() const override {
    return fmt::format("{}|{} {}{}", chat_->fingerprint(), name_, detail_, version_);
  }
  std::vector<std::pair<std::string, std::string>> inputs() const override {
    auto out = chat_->inputs();
    out.emplace_back(name_, fmt::format("{}{}", detail_, version_));
    return out;
  }
  std::string description() const override {
    return fmt::format("{}; messages from {}", chat_->description(), detail_);
  }

 private:
  std::unique_ptr<PromptStrategy> chat_;
  Reshape reshape_;
  std::string name_, detail_, version_;  // version: of what reshaping does, for digests
};

// The chat strategy for rows with plain messages; the dataset's other keys are kept.
std::unique_ptr<PromptStrategy> plain_chat(const PromptContext& context) {
  const DatasetEntry plain;
  DatasetEntry dataset = *context.dataset;
  dataset.type.name = "chat_template";
  dataset.field_messages = kMessages;
  dataset.message_property_mappings = plain.message_property_mappings;
  dataset.message_columns.clear();
  PromptContext own = context;
  own.dataset = &dataset;
  return make_chat_template(own);
}

// ---- columns

// The text of a column as it is; those of several without white space at their ends, joined with blank lines. Blank
// ones are left out.
std::string column_texts(const Json& record, const std::vector<std::string>& columns) {
  std::string out;
  for (const std::string& column : columns) {
    auto it = record.find(column);
    if (it == record.end()) text_column(record, column);  // throws an error that lists the columns
    if (it->is_null()) continue;
    const std::string whole = it->is_number() || it->is_boolean() ? dump(*it) : text_column(record, column);
    const std::string text(trim(whole));
    if (!text.empty()) out += (out.empty() ? "" : "\n\n") + (columns.size() == 1 ? whole : text);
  }
  return out;
}

// For a row without a question or an answer, no turn is left to train on, and it is dropped with that reason.
Json messages_of_columns(const Json& record, const std::map<std::string, std::vector<std::string>>& columns,
                         bool prompt) {
  auto text_of = [&](const char* role) {
    auto it = columns.find(role);
    return it == columns.end() ? std::string() : column_texts(record, it->second);
  };
  Json messages = Json::array();
  if (std::string system = text_of("system"); !system.empty())
    messages.push_back({{"role", "system"}, {"content", std::move(system)}});
  const std::string user = text_of("user"), assistant = prompt ? "" : text_of("assistant");
  messages.push_back({{"role", "user"}, {"content", user}});
  if (!user.empty() && !assistant.empty()) messages.push_back({{"role", "assistant"}, {"content", assistant}});
  return {{kMessages, std::move(messages)}};
}

// ---- ChatGPT

// The text parts of a message (others are images and files); "" if there is none.
std::string chatgpt_text(const Json& message) {
  auto content = message.find("content");
  if (content == message.end() || !content->is_object()) return "";
  const std::string kind = json_string(*content, "content_type", "text", "content");
  if (kind != "text" && kind != "multimodal_text") return "";
  auto parts = content->find("parts");
  if (parts == content->end() || !parts->is_array()) return "";
  std::string out;
  for (auto& part : *parts)
    if (part.is_string() && !part.get_ref<const std::string&>().empty())
      out += (out.empty() ? "" : "\n\n") + part.get_ref<const std::string&>();
  return out;
}

// Whether the user saw the message: not a hidden system message or a tool call.
bool chatgpt_shown(const Json& message) {
  if (auto to = message.find("recipient"); to != message.end() && to->is_string() && *to != "all") return false;
  auto metadata = message.find("metadata");
  if (metadata == message.end() || !metadata->is_object()) return true;
  auto hidden = metadata->find("is_visually_hidden_from_conversation");
  return hidden == metadata->end() || !hidden->is_boolean() || !hidden->get<bool>();
}

// The nodes of the branch shown last, from its end to its beginning.
std::vector<const Json*> chatgpt_path(const Json& mapping, std::string id) {
  std::vector<const Json*> path;
  while (!id.empty()) {
    auto node = mapping.find(id);
    if (node == mapping.end() || !node->is_object()) throw UserError("mapping: there is no node '{}'", shown(id, 60));
    path.push_back(&*node);
    if (path.size() > mapping.size()) throw UserError("mapping: node '{}' is its own ancestor", shown(id, 60));
    id = json_string(*node, "parent", "", "mapping");
  }
  return path;
}

// Without current_node (older exports), the end of the newest branch: following the last child of each node.
std::string chatgpt_end(const Json& record, const Json& mapping) {
  if (std::string end = json_string(record, "current_node", "", "row"); !end.empty()) return end;
  std::string id;
  for (auto& [name, node] : mapping.items())
    if (node.is_object() && json_string(node, "parent", "", "mapping").empty()) id = name;
  for (std::size_t steps = 0; steps <= mapping.size(); ++steps) {
    auto node = mapping.find(id);
    if (node == mapping.end()) break;
    auto children = node->find("children");
    if (children == node->end() || !children->is_array() || children->empty() || !children->back().is_string()) break;
    id = children->back().get<std::string>();
  }
  return id;
}

// Merges consecutive messages of one side into a turn, since templates require alternating turns. Messages after the
// last answer are dropped.
Json messages_of_chatgpt(const Json& record, bool prompt) {
  auto mapping = record.find("mapping");
  if (mapping == record.end() || !mapping->is_object())
    throw UserError("'mapping' is missing: this is not a conversation of a ChatGPT export{}", looks_like(record));
  std::vector<const Json*> path = chatgpt_path(*mapping, chatgpt_end(record, *mapping));
  Json messages = Json::array();
  std::size_t answered = 0;
  for (auto node = path.rbegin(); node != path.rend(); ++node) {
    auto message = (*node)->find("message");
    if (message == (*node)->end() || !message->is_object() || !chatgpt_shown(*message)) continue;
    auto author = message->find("author");
    const std::string role =
        author != message->end() && author->is_object() ? json_string(*author, "role", "", "author") : "";
    if (role != "system" && role != "user" && role != "assistant") continue;
    std::string text = chatgpt_text(*message);
    if (text.empty() || (role == "system" && !messages.empty())) continue;
    if (!messages.empty() && messages.back()["role"] == role)
      text = messages.back()["content"].get<std::string>() + "\n\n" + text, messages.erase(messages.size() - 1);
    messages.push_back({{"role", role}, {"content", std::move(text)}});
    if (role == "assistant") answered = messages.size();
  }
  if (!prompt && answered > 0) messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(answered), messages.end());
  if (messages.empty())
    messages.push_back({{"role", "user"}, {"content", ""}});  // the row is dropped later, since it has no answer
  return {{kMessages, std::move(messages)}};
}

}  // namespace

std::unique_ptr<PromptStrategy> make_column_chat(const PromptContext& context) {
  const auto columns = context.dataset->message_columns;
  std::string detail;
  for (auto& [role, names] : columns) {
    if (role != "system" && role != "user" && role != "assistant")
      throw UserError("message_columns: unknown role '{}'; choose from system, user, assistant", role);
    if (names.empty()) throw UserError("message_columns: '{}' has no column name", role);
    detail += fmt::format("{}{}: {}", detail.empty() ? "" : "; ", role, fmt::join(names, ", "));
  }
  for (const char* role : {"user", "assistant"})
    if (!columns.contains(role)) throw UserError("message_columns: the column of '{}' is missing", role);
  return std::make_unique<Reshaped>(
      plain_chat(context),
      [columns](const Json& record, bool prompt) { return messages_of_columns(record, columns, prompt); },
      "message_columns", detail, " (texts as they are)");
}

std::unique_ptr<PromptStrategy> make_chatgpt(const PromptContext& context) {
  return std::make_unique<Reshaped>(plain_chat(context), messages_of_chatgpt, "source", "ChatGPT's export");
}

}  // namespace dml
