#include "pipeline/init_table.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "prompt/conversation_json.h"
#include "prompt/scalar_column.h"

namespace dml {
namespace {

bool is_list_of_objects(const Json& value) { return value.is_array() && !value.empty() && value[0].is_object(); }

}  // namespace

std::string plain_name(const std::string& column) {
  std::string out = ascii_lower(column);
  std::ranges::replace_if(
      out, [](char c) { return c == ' ' || c == '-' || c == '.'; }, '_');
  while (out.ends_with('_') || out.ends_with(':') || out.ends_with('?')) out.pop_back();
  return out;
}

Json list_in(const Json& value) {
  if (!value.is_string() || !trim(value.get_ref<const std::string&>()).starts_with('[')) return value;
  try {
    return list_or_text(value, "");
  } catch (const UserError&) {  // a text that begins like a list
    return value;
  }
}

std::vector<SampledColumn> columns_of(const std::vector<Json>& rows) {
  std::vector<SampledColumn> out;
  for (const Json& row : rows)
    for (auto& [key, value] : row.items()) {
      auto column = std::ranges::find(out, key, &SampledColumn::name);
      if (column == out.end()) column = out.insert(out.end(), SampledColumn{.name = key, .plain = plain_name(key)});
      column->texts += value.is_string();
      column->filled += value.is_string() && !is_blank(value);
      column->scalars += value.is_number() || value.is_boolean();
      column->lists += is_list_of_objects(value);
      column->list_texts += value.is_string() && is_list_of_objects(list_in(value));
      column->objects += value.is_object();
      const Json scalar = scalar_column(value);
      (scalar.is_boolean() || scalar == 0 || scalar == 1 ? column->labels : column->others) += !scalar.is_null();
    }
  return out;
}

std::vector<std::string> names_of(const std::vector<SampledColumn>& columns) {
  std::vector<std::string> names;
  for (auto& c : columns) names.push_back(c.name);
  return names;
}

}  // namespace dml
