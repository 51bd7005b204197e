// The JSON Schema of a recipe, derived from the field list. It accepts what dml accepts: a key with an empty value is
// unset, values have other forms, and a key that dml refuses may still have a value that asks for nothing.
#include <fmt/format.h>

#include "recipe/codecs.h"

namespace dml {
namespace recipe {
namespace {

const Json kText = {{"type", {"string", "number", "boolean"}}};

/// Adds the other forms in which a value may be written: any scalar is text, a number may be text (2e-4 is to readers
/// of YAML 1.1), one value stands for a list of one.
Json with_other_forms(Json schema, const Rules& rules) {
  const Json type = schema.value("type", Json());
  if (type == "string") return kText;
  if (type == "integer" || type == "number") {
    schema["type"] = {type, "string"};
    schema["pattern"] = "^[-+]?[0-9._]+([eE][-+]?[0-9]+)?$";
  } else if (type == "array" && !schema["items"].contains("properties")) {
    schema["items"] = with_other_forms(schema["items"], rules);
    return {{"anyOf", {schema, schema["items"]}}};
  } else if (schema.value("additionalProperties", Json()).is_object()) {
    schema["additionalProperties"] = with_other_forms(schema["additionalProperties"], rules);
  } else if (rules.pairs) {
    return {{"anyOf", {schema, {{"type", "string"}}}}};
  } else if (rules.open) {
    return {{"anyOf", {schema, kText}}};
  }
  return schema;
}

/// What read_unmapped accepts of a key that corresponds to no setting.
Json unmapped_schema(const UnmappedKey& unmapped) {
  const char* effect = unmapped.effect == Unmapped::inert         ? "No effect here"
                       : unmapped.effect == Unmapped::unsupported ? "Not done"
                                                                  : "Not supported";
  Json out = {{"description", fmt::format("{}: {}.", effect, unmapped.why)}};
  if (unmapped.effect == Unmapped::rejected)
    out["enum"] = {nullptr, "", Json::array(), Json::object(), parse_json(unmapped.neutral, unmapped.key)};
  return out;
}

Json null_or(Json schema) {
  if (!schema.contains("anyOf")) schema = Json{{"anyOf", {std::move(schema)}}};
  schema["anyOf"].push_back({{"type", "null"}});
  return schema;
}

/// Without plug-ins, the names of rows that plug-ins may add are those of dml.
Json names_without_plugins() {
  Json properties = Json::object();
  for (const Section& section : sections())
    for (const Field& field : section.table.fields())
      if (field.rules.open && !field.rules.choices.empty()) properties[field.key] = null_or(field.codec->schema(field));
  return {{"properties", std::move(properties)}};
}

}  // namespace

Json table_schema(const Table& table) {
  Json properties = Json::object(), patterns = Json::object(), required = Json::array();
  for (const Field& field : table.fields()) {
    Json schema = with_other_forms(field.codec->schema(field), field.rules);
    if (!field.rules.required) schema = null_or(std::move(schema));
    schema["description"] = field.help;
    for (const auto& alias : field.rules.aliases) properties[alias] = schema;
    for (const auto& choice : field.rules.choices)
      for (const auto& flag : choice.flags)
        properties[flag] = {{"type", {"boolean", "null"}},
                            {"description", fmt::format("true: {}: {}", field.key, choice.value)}};
    Json value = field.write(table.default_owner());
    if (!value.is_null() && !field.rules.required && field.rules.unset.empty()) schema["default"] = value;
    properties[field.key] = std::move(schema);
    if (field.rules.required) required.push_back(field.key);
  }
  for (const UnmappedKey& unmapped : table.unmapped()) {
    const std::string_view key = unmapped.key;
    if (key.ends_with('*')) patterns[fmt::format("^{}", key.substr(0, key.size() - 1))] = unmapped_schema(unmapped);
    else properties[unmapped.key] = unmapped_schema(unmapped);
  }
  Json out = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!patterns.empty()) out["patternProperties"] = std::move(patterns);
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

}  // namespace recipe

using namespace recipe;

Json json_schema() {
  Json out = table_schema(other_keys());
  for (auto& section : sections()) out["properties"].update(table_schema(section.table)["properties"]);
  Json& corpora = out["properties"]["pretraining_dataset"]["anyOf"];  // or one of them, or its path (map_old_keys)
  corpora.insert(corpora.end(), {corpora[0]["items"], Json{{"type", "string"}}});
  out["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  out["title"] = "dml recipe";
  out["if"] = {{"required", {"plugins"}}};
  out["else"] = names_without_plugins();
  return out;
}

}  // namespace dml
