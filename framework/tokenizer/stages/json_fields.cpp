#include "tokenizer/stages/json_fields.h"

#include "core/base64.h"
#include "core/error.h"
#include "core/shown.h"
#include "core/utf8.h"

namespace dml {

std::string stage_type(const Json& spec, std::string_view where) {
  if (!spec.is_object()) throw UserError("{}: must be an object with a 'type', is {}", where, shown(dump(spec), 60));
  std::string type = json_string(spec, "type", "", where);
  if (type.empty()) throw UserError("{}: has no 'type'", where);
  return type;
}

void for_each_part(const Json& spec, const char* key, std::string_view where,
                   const std::function<void(const Json&, const std::string&)>& read) {
  auto parts = spec.find(key);
  if (parts == spec.end() || !parts->is_array()) throw UserError("{}: '{}' must be a list", where, key);
  for (std::size_t i = 0; i < parts->size(); ++i) read((*parts)[i], fmt::format("{}.{}[{}]", where, key, i));
}

Pattern read_pattern(const Json& spec, std::string_view where) {
  auto it = spec.find("pattern");
  if (it != spec.end() && it->is_string()) return {it->get<std::string>(), false};
  if (it != spec.end() && it->is_object() && it->size() == 1) {
    auto member = it->begin();
    if (member.value().is_string() && (member.key() == "String" || member.key() == "Regex"))
      return {member.value().get<std::string>(), member.key() == "Regex"};
  }
  throw UserError("{}: 'pattern' must be {{\"String\": …}} or {{\"Regex\": …}}", where);
}

std::string read_character(const Json& spec, const char* key, const char* fallback, std::string_view where) {
  std::string text = json_string(spec, key, fallback, where);
  if (count_characters(text) != 1)
    throw UserError("{}: '{}' must be one character, is '{}'", where, key, shown(text, 60));
  return text;
}

std::string decode_base64(std::string_view text, std::string_view where) {
  if (auto bytes = from_base64(text)) return *std::move(bytes);
  throw UserError("{}: not valid base64", where);
}

}  // namespace dml
