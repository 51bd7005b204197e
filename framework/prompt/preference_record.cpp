#include "prompt/preference_record.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "core/shown.h"
#include "prompt/layout.h"
#include "prompt/scalar_column.h"

namespace dml {

FieldPath FieldPath::parse(const std::string& text) {
  FieldPath out;
  std::string columns = text;
  if (const auto bracket = text.find('['); bracket != std::string::npos) {
    std::uint16_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + bracket + 1, text.data() + text.size(), number);
    const std::string_view rest(end, text.data() + text.size());
    if (error != std::errc() || (rest != "]" && rest != "].content"))
      throw UserError("'{}' names no message of a column; write it as column[number].content", shown(text, 60));
    out.message = number;
    columns.resize(bracket);
  }
  for (std::size_t begin = 0; begin <= columns.size();) {
    const auto bar = std::min(columns.find('|', begin), columns.size());
    out.columns.push_back(columns.substr(begin, bar - begin));
    begin = bar + 1;
  }
  return out;
}

bool FieldPath::in(const Json& record) const {
  return std::ranges::any_of(columns, [&](const std::string& c) { return record.contains(c); });
}

std::string FieldPath::text(const Json& record) const {
  const auto found = std::ranges::find_if(columns, [&](const std::string& c) { return record.contains(c); });
  const std::string& column = found == columns.end() ? columns.front() : *found;
  if (message < 0) return text_column(record, column);
  const Json& list = list_column(record, column);
  if (std::ssize(list) <= message)
    throw UserError("'{}' must have at least {} messages, has {}", column, message + 1, list.size());
  const Json& entry = list[static_cast<std::size_t>(message)];
  if (!entry.is_object() || !entry.contains("content") || !entry["content"].is_string())
    throw UserError("'{}[{}]' must be a message with 'content', is {}", column, message, shown(dump(entry), 60));
  return entry["content"].get<std::string>();
}

std::string FieldPath::name() const {
  const std::string all = fmt::format("{}", fmt::join(columns, " or "));
  return message < 0 ? all : fmt::format("{}[{}].content", all, message);
}

bool label_column(const Json& record, const std::string& column) {
  auto found = record.find(column);
  if (found == record.end()) throw UserError("'{}' is missing: true for a good answer, false for a bad one", column);
  const Json label = scalar_column(*found);
  if (label.is_boolean()) return label.get<bool>();
  if (label == 0 || label == 1) return label == 1;
  throw UserError("'{}' must be true or false, is {}", column, shown(dump(*found), 60));
}

}  // namespace dml
