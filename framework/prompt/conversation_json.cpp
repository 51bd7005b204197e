#include "prompt/conversation_json.h"

#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

constexpr std::string_view kBlankBytes = " \t\r\n\v\f";

void decode(Json& object, const std::string& key, const std::string& name) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string()) return;
  *it = is_blank(*it) ? Json::object() : parse_json(it->get<std::string>(), name);
}

}  // namespace

Json without_nulls(const Json& value) {
  if (value.is_object()) {
    Json out = Json::object();
    for (auto& [key, v] : value.items())
      if (!v.is_null()) out[key] = without_nulls(v);
    return out;
  }
  if (!value.is_array()) return value;
  Json out = Json::array();
  for (auto& v : value)
    if (!v.is_null()) out.push_back(without_nulls(v));
  return out;
}

std::string keys_of(const Json& object) {
  std::string out;
  for (auto& [key, v] : object.items()) out += (out.empty() ? "'" : ", '") + shown(key, 40) + "'";
  return out.empty() ? "nothing" : out;
}

bool is_blank(const Json& value) {
  return value.is_null() ||
         (value.is_string() && value.get_ref<const std::string&>().find_first_not_of(kBlankBytes) == std::string::npos);
}

Json list_or_text(const Json& value, const std::string& field) {
  Json list = value.is_string() ? parse_json(value.get_ref<const std::string&>(), field) : value;
  if (!list.is_array()) throw UserError("{}: must be a list, is {}", field, list.type_name());
  return list;
}

bool flag(const Json& value, const std::string& field) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  throw UserError("{}: must be true or false (or a weight), is {}", field, value.type_name());
}

void decode_functions(Json& list, const std::string& key, const std::string& name) {
  for (std::size_t k = 0; k < list.size(); ++k) {
    const std::string entry = fmt::format("{}[{}]", name, k);
    if (!list[k].is_object()) throw UserError("{}: must be an object, is {}", entry, list[k].type_name());
    if (auto f = list[k].find("function"); f != list[k].end() && f->is_object())
      decode(*f, key, fmt::format("{}.function.{}", entry, key));
    decode(list[k], key, fmt::format("{}.{}", entry, key));
  }
}

}  // namespace dml
