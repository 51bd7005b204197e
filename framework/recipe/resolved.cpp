// The resolved recipe: every setting with its value, as YAML that parses to the same Recipe, or as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "recipe/fields.h"
#include "recipe/keys.h"

namespace dml {
namespace recipe {
namespace {

bool is_plain(const std::string& text) {
  static constexpr std::string_view kFree = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
  if (text.empty() || text.size() > 120 || text.find_first_not_of(kFree) != text.npos) return false;
  if (text[0] == '-' || (text[0] >= '0' && text[0] <= '9') || text == "." || text == "null" || text == "Null" ||
      text == "NULL")
    return false;
  auto truth = canonical_bool(text);
  return truth != "true" && truth != "false";
}

std::string scalar(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) return value.get<std::string>();
  return dump(value);  // JSON is YAML
}

std::string key_text(const std::string& key) { return is_plain(key) ? key : dump(Json(key)); }

bool is_table(const Json& value) { return value.is_object() && !value.empty(); }
bool is_list_of_tables(const Json& value) {
  return value.is_array() && !value.empty() && std::ranges::all_of(value, is_table);
}

/// Whether a table has known fields, whose empty values are omitted; in free tables (model_config) they are values.
bool has_fields(const std::string& key) {
  const Field* field = find_nested(key);
  return field && field->codec->table();
}

struct Writer {
  const RecipeFile& file;
  bool with_origins;
  std::string out;

  void line(const std::string& text, const std::string& path) {
    auto origin = file.origins.find(path);
    if (with_origins && origin != file.origins.end()) out += fmt::format("{:<48} # {}\n", text, origin->second);
    else out += text + "\n";
  }

  /// Writes a table; unset keys are omitted or, with keep_unset, written without a value.
  void table(const Json& value, const std::string& indent, const std::string& path, bool keep_unset) {
    bool first = true;
    for (const auto& [key, item] : value.items()) {
      if (item.is_null() && !keep_unset && key != "type") continue;
      std::string name = path + key,
                  head = (first && indent.ends_with("- ") ? indent : std::string(indent.size(), ' ')) + key_text(key) +
                         ":";
      first = false;
      bool keep = path.empty() ? !has_fields(key) : keep_unset;
      if (is_table(item)) {
        line(head, name);
        table(item, std::string(indent.size() + 2, ' '), name + ".", keep);
      } else if (is_list_of_tables(item)) {
        line(head, name);
        for (std::size_t i = 0; i < item.size(); ++i)
          table(item[i], std::string(indent.size() + 2, ' ') + "- ", fmt::format("{}.{}.", name, i), keep);
      } else {
        auto text = scalar(item);
        line(text.empty() ? head : head + " " + text, name);
      }
    }
  }
};

}  // namespace
}  // namespace recipe

std::string resolved_yaml(const RecipeFile& file, bool with_origins) {
  recipe::Writer writer{file, with_origins, {}};
  for (const auto& section : recipe::sections()) {
    writer.out += fmt::format("{}# {}\n", writer.out.empty() ? "" : "\n", section.table.title());
    writer.table(recipe::write_table(section.table, section.of(file.recipe)), "", "", true);
  }
  return writer.out;
}

Json entry_defaults(const std::string& list) {
  const recipe::Field* field = recipe::find_nested(list);
  const recipe::Table* entry = field ? field->codec->table() : nullptr;
  return entry && entry->default_owner() ? recipe::write_table(*entry, entry->default_owner()) : Json::object();
}

Json resolved_json(const RecipeFile& file) {
  Json out = Json::object();
  for (const auto& section : recipe::sections())
    out.update(recipe::write_table(section.table, section.of(file.recipe)));
  return out;
}

}  // namespace dml
