// Helpers of the codecs: YAML scalars and errors about values.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "recipe/fields.h"

namespace dml::recipe {

// Parse a scalar; false if the text is not of that type. Spellings are those of YAML 1.1, which Axolotl's recipes use.
bool parse_bool(const Node& node, bool& value);
bool parse_integer(const Node& node, std::int64_t& value);
bool parse_number(const Node& node, double& value);
/// A value by the types of YAML: null, true, 12, 0.5, text, list, table.
Json to_json(const Node& node);

/// Adds the error "'KEY' must be EXPECTED, is VALUE".
void wrong(const Node& node, const Field& field, const std::string& path, Reading& reading);
void read_integer(const Node& node, std::int64_t& to, const Field& field, const std::string& path, Reading& reading);
void read_number(const Node& node, double& to, const Field& field, const std::string& path, Reading& reading);
void read_text(const Node& node, std::string& to, const Field& field, const std::string& path, Reading& reading);
void read_json(const Node& node, Json& to, const Field& field, const std::string& path, Reading& reading);
/// Whether a number means "none" by Rules::off.
bool stands_for_none(const Node& node, const Field& field);
std::string expects_number(const char* noun, const Field& field);
std::string expects_text(const Field& field);
Json number_schema(const char* type, const Field& field);
Json text_schema(const Field& field);
Json table_schema(const Table& table);

/// "one of A, B, C", for errors and docs.
std::string expects_one_of(const std::vector<std::string>& spellings);
void wrong_choice(const Node& node, const std::vector<std::string>& spellings, const std::string& path,
                  Reading& reading);

}  // namespace dml::recipe
