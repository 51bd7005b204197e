#include "tokenizer/stages/json_fields.h"

#include "core/error.h"

namespace dml {

std::string stage_type(const Json& spec, std::string_view where) {
  if (!spec.is_object()) throw UserError("{}: must be an object with a 'type', is {}", where, dump(spec).substr(0, 60));
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

std::string decode_base64(std::string_view text, std::string_view where) {
  auto digit = [](char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  unsigned bits = 0, held = 0;
  for (char c : text) {
    int d = digit(c);
    if (d < 0) throw UserError("{}: not valid base64", where);
    bits = (bits << 6) | static_cast<unsigned>(d);
    if ((held += 6) >= 8) out += static_cast<char>(bits >> (held -= 8));
  }
  return out;
}

}  // namespace dml
