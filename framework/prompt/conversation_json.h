// JSON as rows of conversations have it: columns that may be lists or JSON in a string, flags, functions of tools.
#pragma once

#include <string>

#include "core/json.h"

namespace dml {

/// The value without members and elements that are null, at any depth.
Json without_nulls(const Json& value);
/// "'role', 'content'": for messages.
std::string keys_of(const Json& object);
/// A column that is a list, or a list written as a JSON string. UserError.
Json list_or_text(const Json& value, const std::string& field);
/// true, false, or a weight: not 0. UserError.
bool flag(const Json& value, const std::string& field);
/// Of a list of tools or of their calls: where `key` of an entry, or of its "function", is a JSON string, it becomes
/// the object that it spells. UserError where an entry is not an object.
void decode_functions(Json& list, const std::string& key, const std::string& name);

}  // namespace dml
