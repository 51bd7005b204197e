#include "prompt/scalar_column.h"

#include "core/text.h"

namespace dml {

Json scalar_column(const Json& value) {
  constexpr std::size_t kLongest = 40;
  if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongest) return value;
  const std::string text = ascii_lower(value.get_ref<const std::string&>());
  if (text.empty()) return nullptr;
  const Json parsed = Json::parse(text, nullptr, false);
  return parsed.is_boolean() || parsed.is_number() ? parsed : value;
}

}  // namespace dml
