// Helpers of the codecs: YAML scalars, errors about values, and the spellings of enumerations.
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

/// A spelling of an enumeration's value; the first row of a value is how dml writes it. `notice` is printed if a recipe
/// uses the spelling.
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
const std::vector<EnumRow<IntervalStrategy>>& enum_rows();
/// "one of A, B, C", for errors and docs.
std::string expects_one_of(const std::vector<std::string>& spellings);
void wrong_choice(const Node& node, const std::vector<std::string>& spellings, const std::string& path,
                  Reading& reading);

}  // namespace dml::recipe
