// Values as Python writes them: str(), repr(), json.dumps(), float formatting, strftime.
#pragma once

#include <cstdint>
#include <string>

#include "jinja/value.h"

namespace dml::jinja {

/// str(value); marks are kept. Undefined is "".
Text to_text(const Value& value);
/// repr(value), as it appears inside of lists and dicts.
Text repr(const Value& value);
/// repr(float): the shortest digits that read back, an exponent below 1e-4 and from 1e16 on.
std::string float_repr(double value);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  bool pretty = false;
  std::string indent;                   // per level, when pretty
  std::string item = ", ", key = ": ";  // separators
};
/// json.dumps(value); marks of strings are kept.
Text to_json(const Value& value, const JsonStyle& style);

/// datetime.strftime for a time given in seconds since 1970 (UTC).
std::string format_time(std::int64_t seconds, const std::string& format);

}  // namespace dml::jinja
