// Helpers for reading the parts of tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace dml {

/// The "type" of a part. UserError when it is no object or has none.
std::string stage_type(const Json& spec, std::string_view where);
/// Calls read(part, path) for every element of the array `key`.
void for_each_part(const Json& spec, const char* key, std::string_view where,
                   const std::function<void(const Json&, const std::string&)>& read);

/// {"String": "…"} or {"Regex": "…"}
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Pattern read_pattern(const Json& spec, std::string_view where);

/// A text of one character. UserError for any other number of characters.
std::string read_character(const Json& spec, const char* key, const char* fallback, std::string_view where);

std::string decode_base64(std::string_view text, std::string_view where);

}  // namespace dml
