#include "recipe/row_pattern.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "core/regex.h"

namespace dml {
namespace {

std::int64_t row_number(std::string_view digits, std::int64_t otherwise, const std::string& text) {
  if (digits.empty()) return otherwise;
  std::int64_t n = -1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n < 0)
    throw UserError("'{}': '{}' is not a row number", text, digits);
  return n;
}

}  // namespace

RowPattern parse_row_pattern(const std::string& text) {
  RowPattern out;
  out.text = out.pattern = text;
  // A character class also ends in a bracket; a range of rows is recognized by the colon between numbers.
  auto open = text.rfind('[');
  if (open != std::string::npos && text.back() == ']' &&
      text.find_first_not_of("0123456789:", open + 1) == text.size() - 1 &&
      std::count(text.begin() + static_cast<std::ptrdiff_t>(open), text.end(), ':') == 1) {
    std::string_view inside = std::string_view(text).substr(open + 1, text.size() - open - 2);
    auto colon = inside.find(':');
    out.ranged = true;
    out.first = row_number(inside.substr(0, colon), 0, text);
    out.last = row_number(inside.substr(colon + 1), -1, text);
    if (out.last >= 0 && out.first >= out.last) throw UserError("'{}' selects no rows", text);
    out.pattern.resize(open);
  }
  if (auto why = Regex::problem(out.pattern); !why.empty())
    throw UserError("'{}' is not a regular expression: {}", text, why);
  return out;
}

}  // namespace dml
