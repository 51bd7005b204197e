#include "pipeline/init_messages.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "core/error.h"
#include "core/text.h"
#include "pipeline/init_table.h"

namespace dml {
namespace {

using Names = std::vector<std::string>;

const Names kRoleKeys{"role", "from", "sender", "author", "speaker"};
const Names kContentKeys{"content", "value", "text", "message"};
const std::vector<std::pair<std::string, Names>> kRoles{
    {"user", {"user", "human", "prompter", "question", "customer"}},
    {"assistant", {"assistant", "gpt", "bot", "model", "chatbot", "ai", "answer", "agent", "function_call"}},
    {"system", {"system"}},
    {"tool", {"tool", "function", "observation", "ipython"}}};

void take_roles(DataFacts& facts, const std::map<std::string, std::int64_t>& spellings) {
  std::map<std::string, Names> roles;
  bool usual = true;
  Names unknown;
  for (auto& [spelling, count] : spellings) {
    const auto known =
        std::ranges::find_if(kRoles, [&](auto& r) { return std::ranges::count(r.second, ascii_lower(spelling)) > 0; });
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
        facts.entry.path, fmt::join(std::views::keys(spellings), ", "));
  if (!unknown.empty())
    facts.notes.push_back(fmt::format("unknown role{} {}: read, never trained on, if the chat template takes it",
                                      unknown.size() == 1 ? "" : "s", fmt::join(unknown, ", ")));
  if (!usual) facts.entry.roles = roles;
}

}  // namespace

bool find_messages(DataFacts& facts, const std::vector<std::string>& names, bool answered) {
  const std::string& name = names[0];
  std::string role, content;
  std::map<std::string, std::int64_t> spellings;
  if (answered) spellings["assistant"] = 1;
  for (const Json& row : facts.sample)
    for (const std::string& each : names) {
      const Json value = list_in(row.value(each, Json()));
      if (!value.is_array() && !value.is_object()) continue;
      for (const Json& message : value.is_object() ? Json::array({value}) : value) {
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
    for (const Json& row : facts.sample)
      if (content.empty() && row.contains(name) && row[name].is_array() && !row[name].empty() &&
          row[name][0].contains(key) && row[name][0][key].is_array())
        content = key;
  if (role.empty() || content.empty()) return false;
  DatasetEntry& e = facts.entry;
  e.type.name = "chat_template";
  e.field_messages = name;
  e.message_property_mappings = {{"role", role}, {"content", content}};
  take_roles(facts, spellings);
  facts.contents = fmt::format("conversations in '{}', messages of {} and {}", name, role, content);
  return true;
}

}  // namespace dml
