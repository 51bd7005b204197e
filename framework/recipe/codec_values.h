// Helpers of the codecs: scalars of YAML, messages about values that are wrong, and the spellings of enumerations.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "recipe/fields.h"

namespace dml::recipe {

// Scalars: false when the text is no such value. Spellings are YAML 1.1's as recipes count on them.
bool parse_bool(const Node& node, bool& value);
bool parse_integer(const Node& node, std::int64_t& value);
bool parse_number(const Node& node, double& value);
/// A value as YAML's core types have it: null, true, 12, 0.5, text, list, table.
Json to_json(const Node& node);

/// Adds "'KEY' must be EXPECTED, is WHAT".
void wrong(const Node& node, const Field& field, const std::string& path, Reading& reading);
void read_integer(const Node& node, std::int64_t& to, const Field& field, const std::string& path, Reading& reading);
void read_number(const Node& node, double& to, const Field& field, const std::string& path, Reading& reading);
void read_text(const Node& node, std::string& to, const Field& field, const std::string& path, Reading& reading);
void read_json(const Node& node, Json& to, const Field& field, const std::string& path, Reading& reading);
/// Whether a number is one of the values that Rules::off makes another way to say "none".
bool stands_for_none(const Node& node, const Field& field);
std::string expects_number(const char* noun, const Field& field);
std::string expects_text(const Field& field);
Json number_schema(const char* type, const Field& field);
Json text_schema(const Field& field);
Json table_schema(const Table& table);

/// Spellings of an enumeration; a value's first row is how it is written. Its notice is printed when that spelling is
/// used.
template <class E>
struct EnumRow {
  const char* spelling;
  E value;
  const char* notice = nullptr;
};
template <class E>
const std::vector<EnumRow<E>>& enum_rows();
template <>
const std::vector<EnumRow<AdapterKind>>& enum_rows();
template <>
const std::vector<EnumRow<LoraInit>>& enum_rows();
template <>
const std::vector<EnumRow<ExcessLength>>& enum_rows();
template <>
const std::vector<EnumRow<BadRow>>& enum_rows();
template <>
const std::vector<EnumRow<TrainOnEnd>>& enum_rows();
template <>
const std::vector<EnumRow<Recompute>>& enum_rows();
template <>
const std::vector<EnumRow<DType>>& enum_rows();
template <>
const std::vector<EnumRow<std::optional<DType>>>& enum_rows();
template <>
const std::vector<EnumRow<Rl>>& enum_rows();
template <>
const std::vector<EnumRow<Bf16Weights>>& enum_rows();
template <>
const std::vector<EnumRow<Cadence>>& enum_rows();
/// The rows' spellings that the field allows, for read, docs and schema.
std::string expects_one_of(const std::vector<std::string>& spellings);
void wrong_choice(const Node& node, const std::vector<std::string>& spellings, const std::string& path,
                  Reading& reading);

}  // namespace dml::recipe
