// The operators + - * / // % ** ~ in, indexing and slicing, with Python's results and error messages.
#pragma once

#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace dml::jinja {

/// Maximum size of a text, in bytes, and of a list that a template may build.
inline constexpr std::size_t kMaxText = std::size_t{16} << 20;
inline constexpr std::size_t kMaxList = 200'000;
/// Throws Failure when a text of `bytes` bytes would be too long.
void check_size(std::size_t bytes);

Value binary(Interpreter& in, std::string_view op, const Value& a, const Value& b);
bool contains(Interpreter& in, const Value& container, const Value& item);
Value item(const Value& container, const Value& key);
Value slice(const Value& container, const Value& begin, const Value& end, const Value& step);
/// The values that a for loop would iterate over; generators are consumed.
std::vector<Value> iterate(const Value& iterable);
/// Python's len().
std::int64_t length(const Value& value);
/// The name of a type in messages: "list object", "dict object", "None".
std::string object_name(const Value& value);

}  // namespace dml::jinja
