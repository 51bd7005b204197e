#include "pipeline/recipe_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace dml {
namespace {

constexpr std::size_t kLongestShown = 60;  // bytes of a value

// Writes "2.0", the resolved form, as "2".
std::string value_text(const std::string& value) {
  if (value.empty()) return "unset";
  const bool whole = value.ends_with(".0") && value.find_first_not_of("-0123456789") == value.size() - 2;
  return whole ? value.substr(0, value.size() - 2) : value;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> recipe_items(const std::string& resolved) {
  std::vector<std::pair<std::string, std::string>> items;
  for (std::size_t at = 0; at < resolved.size();) {
    const std::size_t end = std::min(resolved.find('\n', at), resolved.size());
    const std::string line = resolved.substr(at, end - at);
    at = end + 1;
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

std::string changes_text(const std::vector<RecipeChange>& changes) {
  std::string text;
  for (const RecipeChange& c : changes) {
    text += text.empty() ? "" : ", ";
    if (std::max(c.before.size(), c.after.size()) > kLongestShown) text += c.key;
    else text += fmt::format("{} {} → {}", c.key, value_text(c.before), value_text(c.after));
  }
  return text;
}

}  // namespace dml
