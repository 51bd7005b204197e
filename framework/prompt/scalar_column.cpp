#include "prompt/scalar_column.h"

#include <algorithm>
#include <cctype>

namespace dml {

Json scalar_column(const Json& value) {
  constexpr std::size_t kLongest = 40;
  if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongest) return value;
  std::string text = value.get<std::string>();
  if (text.empty()) return nullptr;
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  const Json parsed = Json::parse(text, nullptr, false);
  return parsed.is_boolean() || parsed.is_number() ? parsed : value;
}

}  // namespace dml
