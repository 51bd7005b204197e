// Formats values as Python does: str(), repr(), json.dumps(), floats, strftime.
#pragma once

#include <cstdint>
#include <string>

#include "jinja/value.h"

namespace dml::jinja {

/// Python's str(value); marks are kept. Undefined is "".
Text to_text(const Value& value);
/// Python's repr(value), as inside lists and dicts.
Text repr(const Value& value);
/// Python's repr(float): the shortest digits that parse to the same value, with an exponent below 1e-4 and from 1e16
/// on.
std::string float_repr(double value);
/// Parses all of `text`; a value too large is infinite and one too small 0, as in Python.
bool parse_decimal(const std::string& text, double& value);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  bool pretty = false;
  std::string indent;                   // per level, when pretty
  std::string item = ", ", key = ": ";  // separators
};
/// Python's json.dumps(value); marks of strings are kept.
Text to_json(const Value& value, const JsonStyle& style);

/// datetime.strftime for a time given in seconds since 1970 (UTC).
std::string format_time(std::int64_t seconds, const std::string& format);

}  // namespace dml::jinja
