#include "pipeline/init_columns.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <ranges>

#include "core/closest.h"
#include "core/error.h"
#include "core/text.h"
#include "prompt/scalar_column.h"

namespace dml {
namespace {

using Names = std::vector<std::string>;

// Column names, the preferred ones first.
const Names kUser{"instruction", "question", "prompt",  "query", "user",    "input",
                  "human",       "request",  "problem", "frage", "message", "question_text"};
const Names kAssistant{"output",     "answer", "response", "completion", "reply",   "assistant",  "solution",
                       "generation", "target", "bot",      "gpt",        "antwort", "answer_text"};
const Names kContext{"input", "context"};
const Names kSystem{"system", "system_prompt", "system_message"};
const Names kText{"text", "content", "body", "document", "article", "passage", "story"};
const Names kPromptLists{"messages", "prompt"};  // beside conversations that were compared
const Names kRoleKeys{"role", "from", "sender", "author", "speaker"};
const Names kContentKeys{"content", "value", "text", "message"};
const std::vector<std::pair<std::string, Names>> kRoles{
    {"user", {"user", "human", "prompter", "question", "customer"}},
    {"assistant", {"assistant", "gpt", "bot", "model", "chatbot", "ai", "answer", "agent", "function_call"}},
    {"system", {"system"}},
    {"tool", {"tool", "function", "observation", "ipython"}}};

// Normalizes a name: "Question Text" and "question-text" become question_text.
std::string plain_name(const std::string& column) {
  std::string out = ascii_lower(column);
  std::ranges::replace_if(
      out, [](char c) { return c == ' ' || c == '-' || c == '.'; }, '_');
  while (out.ends_with('_') || out.ends_with(':') || out.ends_with('?')) out.pop_back();
  return out;
}

struct Column {
  std::string name, plain;
  std::int64_t texts = 0, filled = 0, lists = 0, labels = 0, others = 0;  // labels: true, false, 0, 1
};

bool is_blank(const Json& value) {
  return value.is_null() ||
         (value.is_string() && value.get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos);
}

std::vector<Column> columns_of(const std::vector<Json>& rows) {
  std::vector<Column> out;
  for (const Json& row : rows)
    for (auto& [key, value] : row.items()) {
      auto column = std::ranges::find(out, key, &Column::name);
      if (column == out.end()) column = out.insert(out.end(), Column{key, plain_name(key)});
      column->texts += value.is_string();
      column->filled += value.is_string() && !is_blank(value);
      column->lists += value.is_array() && !value.empty() && value[0].is_object();
      const Json scalar = scalar_column(value);
      (scalar.is_boolean() || scalar == 0 || scalar == 1 ? column->labels : column->others) += !scalar.is_null();
    }
  return out;
}

Names names_of(const std::vector<Column>& columns) {
  Names names;
  for (auto& c : columns) names.push_back(c.name);
  return names;
}

class Finder {
 public:
  Finder(DataFacts& facts, const ColumnHints& hints)
      : facts_(facts), hints_(hints), columns_(columns_of(facts.sample)) {}

  void find() {
    if (!hints_.empty()) return take_hints();
    if (chatgpt() || tokens() || preference() || conversation() || segments() || question_and_answer() || text() ||
        by_count())
      return;
    throw UserError(
        "{}: cannot tell what its columns mean: {}; name them with --user COLUMN --assistant COLUMN, or --text COLUMN",
        facts_.entry.path, fmt::join(names_of(columns_), ", "));
  }

 private:
  const Column* column(const std::string& plain) const {
    for (auto& c : columns_)
      if (c.plain == plain) return &c;
    return nullptr;
  }
  /// The first of these names that is a column of texts, or with another count above 0.
  const Column* first_of(const Names& names, const Column* but = nullptr,
                         std::int64_t Column::*count = &Column::filled) const {
    for (auto& name : names)
      if (const Column* c = column(name); c && c != but && c->*count > 0) return c;
    return nullptr;
  }
  std::string exact(const std::string& name) const {
    for (auto& c : columns_)
      if (c.name == name) return name;
    for (auto& c : columns_)
      if (c.plain == plain_name(name)) return c.name;
    throw UserError("{}: there is no column '{}'{}", facts_.entry.path, name, did_you_mean(name, names_of(columns_)));
  }

  void take_hints() {
    if (hints_.text) {
      if (!hints_.user.empty() || hints_.assistant || hints_.system)
        throw UserError("--text is for documents; leave it out, or leave out --user, --assistant and --system");
      return documents(exact(*hints_.text));
    }
    if (hints_.user.empty() || !hints_.assistant) throw UserError("--user and --assistant are needed together");
    auto& columns = facts_.entry.message_columns;
    for (auto& name : hints_.user) columns["user"].push_back(exact(name));
    columns["assistant"] = {exact(*hints_.assistant)};
    if (hints_.system) columns["system"] = {exact(*hints_.system)};
    by_columns();
  }

  bool chatgpt() {
    for (const Json& row : facts_.sample)
      if (!row.contains("mapping") || !row["mapping"].is_object()) return false;
    facts_.entry.type.name = "chat_template.chatgpt";
    facts_.contents = "conversations exported from ChatGPT";
    return true;
  }

  bool tokens() {
    for (const Json& row : facts_.sample)
      if (!row.contains("input_ids") || !row["input_ids"].is_array()) return false;
    facts_.kind = DataKind::tokens;
    facts_.contents = "rows that are token ids already";
    return true;
  }

  bool preference() {
    const Column *chosen = column("chosen"), *rejected = column("rejected"), *label = column("label");
    if (chosen && rejected) return hints_.chosen_only ? chosen_alone(*chosen) : pairs(*chosen, *rejected);
    const Column* completion = first_of(kAssistant);
    if (!label || label->labels == 0 || label->others > 0 || !completion) return false;
    return labeled(*completion, *label);
  }

  // Pairs: a preferred and a rejected answer; both may begin with the prompt.
  bool pairs(const Column& chosen, const Column& rejected) {
    DatasetEntry& e = facts_.entry;
    if (chosen.lists > 0 && !messages_in(chosen.name)) return false;
    const Column* prompt = chosen.lists > 0 ? first_of(kPromptLists, nullptr, &Column::lists) : prompt_beside(&chosen);
    e.type.name = "chat_template";
    e.field_messages = prompt ? prompt->name : DatasetEntry().field_messages;
    e.field_chosen = chosen.name;
    e.field_rejected = rejected.name;
    facts_.rl = Rl::dpo;
    facts_.contents = fmt::format("pairs of answers, {}chosen: {}, rejected: {}",
                                  prompt ? fmt::format("prompt: {}, ", prompt->name) : "", chosen.name, rejected.name);
    return true;
  }

  bool labeled(const Column& completion, const Column& label) {
    if (hints_.chosen_only)
      throw UserError(
          "{}: --chosen-only needs a column of chosen answers; keep the rows whose '{}' is true in a file of their own",
          facts_.entry.path, label.name);
    if (completion.name != "completion" || label.name != "label")
      throw UserError(
          "{}: answers with a label (rl: kto) need the columns 'completion' and 'label'; here they are '{}' and '{}'",
          facts_.entry.path, completion.name, label.name);
    const Column* prompt = prompt_beside(&completion);
    facts_.entry.type.name = "chat_template";
    facts_.entry.field_messages = prompt->name;
    facts_.rl = Rl::kto;
    facts_.contents = fmt::format("answers with a label, prompt: {}, completion, label", prompt->name);
    return true;
  }

  const Column* prompt_beside(const Column* answer) const {
    const Column* prompt = first_of(kUser, answer);
    if (!prompt)
      throw UserError("{}: cannot tell which column holds the prompt: {}; rename it to 'prompt'", facts_.entry.path,
                      fmt::join(names_of(columns_), ", "));
    return prompt;
  }

  bool chosen_alone(const Column& chosen) {
    if (chosen.lists > 0) {
      facts_.notes.emplace_back("preference data: only the chosen conversations are trained on");
      return messages_in(chosen.name);
    }
    facts_.notes.emplace_back("preference data: only the chosen answers are trained on");
    facts_.entry.message_columns = {{"user", {prompt_beside(&chosen)->name}}, {"assistant", {chosen.name}}};
    by_columns();
    return true;
  }

  bool conversation() {
    for (const char* usual :
         {"messages", "conversations", "conversation", "chat_messages", "dialog", "dialogue", "turns", "chat"})
      if (const Column* c = column(usual); c && c->lists > 0 && messages_in(c->name)) return true;
    for (auto& c : columns_)
      if (c.lists > 0 && messages_in(c.name)) return true;
    return false;
  }

  // A column of lists of messages; false when its elements are something else.
  bool messages_in(const std::string& name) {
    std::string role, content;
    std::map<std::string, std::int64_t> spellings;
    for (const Json& row : facts_.sample) {
      auto list = row.find(name);
      if (list == row.end() || !list->is_array()) continue;
      for (const Json& message : *list) {
        if (!message.is_object()) return false;
        for (auto& key : kRoleKeys)
          if (role.empty() && message.contains(key) && message[key].is_string()) role = key;
        for (auto& key : kContentKeys)
          if (content.empty() && message.contains(key) && message[key].is_string()) content = key;
        if (!role.empty() && message.contains(role) && message[role].is_string())
          ++spellings[message[role].get<std::string>()];
      }
    }
    for (auto& key : kContentKeys)  // parts in a list, where there is no plain text
      for (const Json& row : facts_.sample)
        if (content.empty() && row.contains(name) && row[name].is_array() && !row[name].empty() &&
            row[name][0].contains(key) && row[name][0][key].is_array())
          content = key;
    if (role.empty() || content.empty()) return false;
    DatasetEntry& e = facts_.entry;
    e.type.name = "chat_template";
    e.field_messages = name;
    e.message_property_mappings = {{"role", role}, {"content", content}};
    take_roles(spellings);
    facts_.contents = fmt::format("conversations in '{}', messages of {} and {}", name, role, content);
    return true;
  }

  void take_roles(const std::map<std::string, std::int64_t>& spellings) {
    std::map<std::string, Names> roles;
    bool usual = true;
    Names unknown;
    for (auto& [spelling, count] : spellings) {
      const auto known = std::ranges::find_if(
          kRoles, [&](auto& r) { return std::ranges::count(r.second, ascii_lower(spelling)) > 0; });
      if (known == kRoles.end()) {
        unknown.push_back(spelling);
        continue;
      }
      roles[known->first].push_back(spelling);
      usual = usual && (spelling == known->first || spelling == "human" || spelling == "gpt");
    }
    if (!roles.contains("assistant"))
      throw UserError(
          "{}: no message has the role 'assistant'; the roles are {}. Rename the role of the answers to 'assistant'",
          facts_.entry.path, fmt::join(std::views::keys(spellings), ", "));
    if (!unknown.empty())
      facts_.notes.push_back(fmt::format("unknown role{} {}: read, never trained on, if the chat template takes it",
                                         unknown.size() == 1 ? "" : "s", fmt::join(unknown, ", ")));
    if (!usual) facts_.entry.roles = roles;
  }

  bool segments() {
    const Column* c = column("segments");
    if (!c || c->lists == 0) return false;
    facts_.entry.type.name = "input_output";
    facts_.contents = "segments of text, each trained on or only read";
    return true;
  }

  bool question_and_answer() {
    const Column* assistant = first_of(kAssistant);
    const Column* user = assistant ? first_of(kUser, assistant) : nullptr;
    if (!user) return false;
    auto& columns = facts_.entry.message_columns;
    columns["user"] = {user->name};
    if (user->plain == "instruction" || user->plain == "question")
      if (const Column* context = first_of(kContext, assistant); context && context != user)
        columns["user"].push_back(context->name);
    columns["assistant"] = {assistant->name};
    if (const Column* system = first_of(kSystem)) columns["system"] = {system->name};
    by_columns();
    return true;
  }

  void by_columns() {
    facts_.entry.type.name = "chat_template";
    Names shown;
    for (const char* role : {"system", "user", "assistant"})
      if (auto c = facts_.entry.message_columns.find(role); c != facts_.entry.message_columns.end())
        shown.push_back(fmt::format("{}: {}", role, fmt::join(c->second, " + ")));
    facts_.contents = fmt::format("{}", fmt::join(shown, ", "));
    auto& columns = facts_.entry.message_columns;
    const auto half = std::ranges::count_if(facts_.sample, [&](const Json& row) {
      return is_blank(row.value(columns["assistant"][0], Json())) || is_blank(row.value(columns["user"][0], Json()));
    });
    const char* then = 2 * half > std::ssize(facts_.sample) ? "half of the rows must have both" : "they are left out";
    if (half > 0)
      facts_.notes.push_back(
          fmt::format("{} of {} rows looked at have no question or no answer; {}", half, facts_.sample.size(), then));
  }

  bool text() {
    const Column* c = first_of(kText);
    if (!c) return false;
    documents(c->name);
    return true;
  }

  void documents(const std::string& name) {
    facts_.kind = DataKind::documents;
    facts_.entry.type.name = "completion";
    if (name != "text") facts_.entry.field = name;
    facts_.contents = facts_.entry.ds_type == "document" ? "documents" : fmt::format("documents in '{}'", name);
  }

  // Two columns of texts with unknown names are question and answer; a single one is text.
  bool by_count() {
    std::vector<const Column*> texts;
    for (auto& c : columns_)
      if (c.filled * 2 > static_cast<std::int64_t>(facts_.sample.size())) texts.push_back(&c);
    if (texts.size() == 1) {
      documents(texts[0]->name);
    } else if (texts.size() == 2) {
      facts_.entry.message_columns = {{"user", {texts[0]->name}}, {"assistant", {texts[1]->name}}};
      by_columns();
    } else {
      return false;
    }
    facts_.notes.emplace_back(
        "the columns' names say nothing of their use; if this guess is wrong: --user COLUMN --assistant COLUMN, or "
        "--text COLUMN");
    return true;
  }

  DataFacts& facts_;
  const ColumnHints& hints_;
  std::vector<Column> columns_;
};

}  // namespace

void detect_columns(DataFacts& facts, const ColumnHints& hints) { Finder(facts, hints).find(); }

}  // namespace dml
