// Helpers for JSON in rows of conversations: columns that may be lists or JSON strings, flags, functions of tools.
#pragma once

#include <string>

#include "core/json.h"

namespace dml {

/// The value without members and elements that are null, at any depth.
Json without_nulls(const Json& value);
/// The keys of an object for messages: "'role', 'content'".
std::string keys_of(const Json& object);
/// Whether a value is null or a text of white space, which is how a table writes that there is none.
bool is_blank(const Json& value);
/// A list, or a list encoded as a JSON string. UserError for anything else.
Json list_or_text(const Json& value, const std::string& field);
/// A boolean, or a weight, of which 0 is false. UserError for anything else.
bool flag(const Json& value, const std::string& field);
/// In a list of tools or tool calls, decodes `key` of each entry, or of its "function", if it is a JSON string.
/// UserError when an entry is not an object.
void decode_functions(Json& list, const std::string& key, const std::string& name);

}  // namespace dml
