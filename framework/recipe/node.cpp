#include "recipe/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "core/text.h"

namespace dml::recipe {

const Node* Node::find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i].text == key) return &items[i];
  return nullptr;
}

std::string canonical_bool(std::string_view text) {
  const std::string lower = ascii_lower(text);
  if (lower == "true" || lower == "yes" || lower == "on") return "true";
  if (lower == "false" || lower == "no" || lower == "off") return "false";
  return std::string(text);
}

void Report::error(Place place, const std::string& text) {
  if (wants_more()) errors_.push_back({place, text});
  else ++more_;
}

void Report::name_errors(std::size_t before, const std::string& key) {
  for (std::size_t i = before; i < errors_.size(); ++i)
    if (errors_[i].key.empty()) errors_[i].key = key;
}

bool Report::is_bad(const std::string& key) const {
  return std::ranges::find(errors_, key, &Line::key) != errors_.end();
}

std::string Report::at(Place place) const {
  if (place.line > 0) return fmt::format("{}:{}:{}", name_, place.line, place.column);
  return place.column > 0 ? overrides_.at(static_cast<std::size_t>(place.column - 1)) : name_;
}

Place Report::add_override(const std::string& place) {
  overrides_.push_back(place);
  return {0, static_cast<int>(overrides_.size())};
}

std::vector<Problem> Report::sorted(std::vector<Line> lines) const {
  std::ranges::stable_sort(lines, {}, [](const Line& l) { return std::tuple(l.place.line, l.place.column); });
  std::vector<Problem> out;
  for (const auto& line : lines) out.push_back({line.key, at(line.place), line.text});
  return out;
}

std::vector<Problem> Report::problems() const {
  std::vector<Problem> out = sorted(errors_);
  if (more_) out.push_back({"", name_, fmt::format("and {} more problems", more_)});
  return out;
}

std::vector<std::string> Report::warnings() const {
  std::vector<std::string> out;
  for (const Problem& warning : sorted(warnings_)) out.push_back(warning.line());
  return out;
}

void Report::raise() const {
  if (!errors_.empty()) throw UserError(problems());
}

}  // namespace dml::recipe
