#include "pipeline/recipe_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/lines.h"
#include "recipe/keys.h"

namespace dml {
namespace {

constexpr std::size_t kLongestShown = 60;  // bytes of a value

// Writes "2.0", the resolved form, as "2".
std::string value_text(const std::string& value) {
  if (value.empty()) return "unset";
  const bool whole = value.ends_with(".0") && value.find_first_not_of("-0123456789") == value.size() - 2;
  return whole ? value.substr(0, value.size() - 2) : value;
}

// A value in a line; of a table, the members that have one.
std::string line_of(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string())
    return value.get_ref<const std::string&>().find('\n') == std::string::npos ? value.get<std::string>() : dump(value);
  if (!value.is_object()) return dump(value);
  Json members = Json::object();
  for (auto& [key, member] : value.items())
    if (!member.is_null() && !(member.is_structured() && member.empty())) members[key] = member;
  return dump(members);
}

bool holds_tables(const Json& list) {
  return std::ranges::any_of(list, [](const Json& entry) { return entry.is_object(); });
}

// Whether the entries of two lists correspond to each other by their numbers.
bool compares_by_entry(const Json& before, const Json& after) {
  if (holds_tables(before) || holds_tables(after)) return true;
  if (std::max(dump(before).size(), dump(after).size()) <= kLongestShown) return false;
  const auto common = static_cast<std::ptrdiff_t>(std::min(before.size(), after.size()));
  return before.size() == after.size() || std::equal(before.begin(), before.begin() + common, after.begin());
}

// An entry of a list that only one of the recipes has, without the settings that are the default.
std::string entry_line(const std::string& list, const Json& entry) {
  if (!entry.is_object()) return line_of(entry);
  const Json defaults = entry_defaults(list);
  Json own = Json::object();
  for (auto& [key, value] : entry.items())
    if (!defaults.contains(key) || defaults[key] != value) own[key] = value;
  return line_of(own);
}

void add_changes(const std::string& path, const Json& before, const Json& after, std::vector<RecipeChange>& out) {
  static const Json kUnset;
  if (before == after) return;
  const std::string prefix = path.empty() ? "" : path + ".";
  if (before.is_object() && after.is_object()) {
    for (auto& [key, value] : after.items())
      add_changes(prefix + key, before.contains(key) ? before[key] : kUnset, value, out);
    for (auto& [key, value] : before.items())
      if (!after.contains(key)) add_changes(prefix + key, value, kUnset, out);
  } else if (before.is_array() && after.is_array() && compares_by_entry(before, after)) {
    const std::size_t common = std::min(before.size(), after.size());
    for (std::size_t i = 0; i < common; ++i) add_changes(fmt::format("{}{}", prefix, i), before[i], after[i], out);
    for (std::size_t i = common; i < before.size(); ++i)
      out.push_back({fmt::format("{}{}", prefix, i), entry_line(path, before[i]), ""});
    for (std::size_t i = common; i < after.size(); ++i)
      out.push_back({fmt::format("{}{}", prefix, i), "", entry_line(path, after[i])});
  } else {
    out.push_back({path, line_of(before), line_of(after)});
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> recipe_items(const std::string& resolved) {
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto [number, line] : Lines(resolved)) {
    if (line.empty() || line[0] == '#') continue;
    if (const std::size_t colon = line.find(':'); line[0] != ' ' && line[0] != '-' && colon != line.npos)
      items.emplace_back(line.substr(0, colon), line.substr(std::min(line.size(), colon + 2)));
    else if (!items.empty()) items.back().second += line;
  }
  return items;
}

std::vector<RecipeChange> recipe_changes(const std::string& before, const std::string& after) {
  std::vector<RecipeChange> changes;
  std::map<std::string, std::string> old;
  for (auto& [key, value] : recipe_items(before)) old[key] = value;
  for (auto& [key, value] : recipe_items(after)) {
    auto it = old.find(key);
    const std::string was = it == old.end() ? "" : it->second;
    if (was != value) changes.push_back({key, was, value});
    if (it != old.end()) old.erase(it);
  }
  for (auto& [key, value] : old)
    if (!value.empty()) changes.push_back({key, value, ""});
  return changes;
}

std::vector<RecipeChange> setting_changes(const Json& before, const Json& after) {
  std::vector<RecipeChange> out;
  add_changes("", before, after, out);
  return out;
}

std::string changes_text(const std::vector<RecipeChange>& changes) {
  std::string text;
  for (const RecipeChange& c : changes) {
    text += text.empty() ? "" : ", ";
    const bool table = c.before.starts_with(' ') || c.after.starts_with(' ');
    if (table || std::max(c.before.size(), c.after.size()) > kLongestShown) text += c.key;
    else text += fmt::format("{} {} → {}", c.key, value_text(c.before), value_text(c.after));
  }
  return text;
}

}  // namespace dml
