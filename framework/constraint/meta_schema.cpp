#include "constraint/meta_schema.h"

#include <map>
#include <string>

namespace dml {
namespace {

const Json kSelf{{"$ref", "#"}}, kText{{"type", "string"}}, kFlag{{"type", "boolean"}}, kNumber{{"type", "number"}},
    kNamed{{"type", "object"}, {"additionalProperties", kSelf}};

Json one_of_these(Json a, Json b) { return {{"anyOf", Json::array({std::move(a), std::move(b)})}}; }
Json text_of(const char* format) { return {{"type", "string"}, {"format", format}}; }

// Keywords of all drafts. `definition`: a reference to a definition of the draft.
template <class Definition>
Json common(int draft, Definition definition) {
  const Json count = definition(draft == 4 ? "positiveInteger" : "nonNegativeInteger"),
             count0 = definition(draft == 4 ? "positiveIntegerDefault0" : "nonNegativeIntegerDefault0"),
             schemas = definition("schemaArray"), names = definition("stringArray"), types = definition("simpleTypes"),
             others = draft == 4 ? one_of_these(kFlag, kSelf) : kSelf, exclusive = draft == 4 ? kFlag : kNumber;
  Json p = {
      {"$schema", draft == 4 ? kText : text_of("uri")},
      {"title", kText},
      {"description", kText},
      {"default", Json::object()},
      {"multipleOf", kNumber},
      {"maximum", kNumber},
      {"exclusiveMaximum", exclusive},
      {"minimum", kNumber},
      {"exclusiveMinimum", exclusive},
      {"pattern", text_of("regex")},
      {"additionalItems", others},
      {"items", draft == 2020 ? kSelf : one_of_these(kSelf, schemas)},
      {"uniqueItems", kFlag},
      {"required", names},
      {"additionalProperties", others},
      {"dependencies", {{"type", "object"}, {"additionalProperties", one_of_these(kSelf, names)}}},
      {"enum", {{"type", "array"}}},
      {"type", one_of_these(types, {{"type", "array"}, {"items", types}, {"minItems", 1}, {"uniqueItems", true}})},
      {"format", kText},
      {"not", kSelf}};
  if (draft == 4) {
    p["multipleOf"]["minimum"] = 0, p["multipleOf"]["exclusiveMinimum"] = true;
  } else {
    p["multipleOf"]["exclusiveMinimum"] = 0;
  }
  if (draft < 7) p["enum"]["minItems"] = 1, p["enum"]["uniqueItems"] = true;
  for (const char* key : {"Length", "Items", "Properties"}) {
    p[std::string("max") + key] = count;
    p[std::string("min") + key] = count0;
  }
  for (const char* key : {"allOf", "anyOf", "oneOf"}) p[key] = schemas;
  for (const char* key : {"definitions", "properties", "patternProperties"}) p[key] = kNamed;
  return p;
}

// Keywords that later drafts add.
template <class Definition>
void add_later(Json& p, int draft, Definition definition) {
  if (draft == 4) {
    p["id"] = kText;
    return;
  }
  for (const char* key : {"$id", "$ref"}) p[key] = text_of("uri-reference");
  for (const char* key : {"contains", "propertyNames"}) p[key] = kSelf;
  p["const"] = Json::object();
  p["examples"] = {{"type", "array"}};
  if (draft == 6) return;
  for (const char* key : {"if", "then", "else"}) p[key] = kSelf;
  for (const char* key : {"readOnly", "writeOnly"}) p[key] = kFlag;
  for (const char* key : {"$comment", "contentMediaType", "contentEncoding"}) p[key] = kText;
  if (draft == 7) return;
  const Json anchor{{"type", "string"}, {"pattern", "^[A-Za-z_][-A-Za-z0-9._]*$"}};
  p["$id"]["pattern"] = "^[^#]*#?$";
  p["$anchor"] = anchor;
  p["deprecated"] = kFlag;
  for (const char* key : {"maxContains", "minContains"}) p[key] = definition("nonNegativeInteger");
  for (const char* key : {"unevaluatedItems", "unevaluatedProperties", "contentSchema"}) p[key] = kSelf;
  for (const char* key : {"$defs", "dependentSchemas"}) p[key] = kNamed;
  p["dependentRequired"] = {{"type", "object"}, {"additionalProperties", definition("stringArray")}};
  p["$vocabulary"] = {{"type", "object"}, {"additionalProperties", kFlag}};
  p["$recursiveAnchor"] = draft == 2019 ? kFlag : anchor;
  p["$recursiveRef"] = text_of("uri-reference");
  if (draft == 2020) {
    p["$dynamicAnchor"] = anchor;
    p["$dynamicRef"] = text_of("uri-reference");
    p["prefixItems"] = definition("schemaArray");
  }
}

Json definitions(int draft) {
  Json names{{"type", "array"}, {"items", kText}, {"uniqueItems", true}};
  if (draft == 4) names["minItems"] = 1;
  const Json count{{"type", "integer"}, {"minimum", 0}};
  const char* counts = draft == 4 ? "positiveInteger" : "nonNegativeInteger";
  return {{counts, count},
          {std::string(counts) + "Default0", count},
          {"schemaArray", {{"type", "array"}, {"minItems", 1}, {"items", kSelf}}},
          {"stringArray", std::move(names)},
          {"simpleTypes", {{"enum", {"array", "boolean", "integer", "null", "number", "object", "string"}}}}};
}

}  // namespace

std::optional<Json> meta_schema(std::string_view uri) {
  static const std::map<std::string_view, int> kDrafts{{"://json-schema.org/draft-04/schema", 4},
                                                       {"://json-schema.org/draft-06/schema", 6},
                                                       {"://json-schema.org/draft-07/schema", 7},
                                                       {"://json-schema.org/draft/2019-09/schema", 2019},
                                                       {"://json-schema.org/draft/2020-12/schema", 2020}};
  const auto scheme = uri.find("://");
  if (scheme == uri.npos || (uri.substr(0, scheme) != "http" && uri.substr(0, scheme) != "https")) return {};
  const auto found = kDrafts.find(uri.substr(scheme));
  if (found == kDrafts.end()) return {};
  const int draft = found->second;
  const std::string key = draft < 2019 ? "definitions" : "$defs";
  const auto definition = [&](const char* name) { return Json{{"$ref", "#/" + key + "/" + name}}; };
  Json properties = common(draft, definition);
  add_later(properties, draft, definition);
  Json out{{"type", draft == 4 ? Json("object") : Json::array({"object", "boolean"})},
           {"properties", std::move(properties)},
           {key, definitions(draft)}};
  if (draft == 4)
    out["dependencies"] = {{"exclusiveMaximum", Json::array({"maximum"})},
                           {"exclusiveMinimum", Json::array({"minimum"})}};
  return out;
}

}  // namespace dml
