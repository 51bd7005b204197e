// JSON Schema as a constraint: compared with python3-jsonschema keyword by keyword, and by random walks over allowed
// bytes.
#include <fstream>

#include "constraint/automaton.h"
#include "constraint/number.h"
#include "constraint_check.h"
#include "core/json.h"

namespace dml {
namespace {

TEST(SchemaConstraint, AgreesWithTheReferenceValidatorOnRandomSchemas) {
  std::ifstream file(std::string(DML_SOURCE_DIR) + "/tests/golden/json_schema.jsonl");
  int schemas = 0, texts = 0;
  for (std::string line; std::getline(file, line); ++schemas) {
    const Json row = parse_json(line, "json_schema.jsonl");
    auto automaton = schema_automaton(dump(row["schema"]), "schema");
    for (bool valid : {true, false})
      for (auto& text : row[valid ? "valid" : "invalid"]) {
        EXPECT_EQ(automaton->accepts(text.get<std::string>()), valid) << dump(row["schema"]) << "\n"
                                                                      << text.get<std::string>();
        ++texts;
      }
  }
  EXPECT_EQ(schemas, 160);
  EXPECT_GT(texts, 1500);
}

// Text that follows the constraint never reaches a dead end, and what it ends with is accepted.
TEST(SchemaConstraint, RandomWalksNeverReachADeadEnd) {
  std::ifstream file(std::string(DML_SOURCE_DIR) + "/tests/golden/json_schema.jsonl");
  unsigned seed = 0;
  int walks = 0, ended = 0;
  for (std::string line; std::getline(file, line); ++seed) {
    const Json row = parse_json(line, "json_schema.jsonl");
    if (seed % 4) continue;
    const JsonSpace space = seed % 8 ? JsonSpace::any : JsonSpace::one;
    auto automaton = schema_automaton(dump(row["schema"]), "schema", space);
    for (unsigned i = 0; i < 3; ++i) {
      const auto text = random_walk(*automaton, 100 * seed + i);
      ++walks;
      if (!text) continue;
      ++ended;
      EXPECT_TRUE(automaton->accepts(*text)) << dump(row["schema"]) << "\n" << *text;
    }
  }
  EXPECT_GT(ended, walks * 3 / 4);
}

TEST(SchemaConstraint, StringsMayBeEscapedInEveryWay) {
  auto a = schema_automaton(R"({"enum": ["é\n\"😀"]})", "schema");
  EXPECT_TRUE(a->accepts("\"é\\n\\\"😀\""));
  EXPECT_TRUE(a->accepts(R"("\u00e9\u000a\u0022\ud83d\uDE00")"));
  EXPECT_FALSE(a->accepts(R"("\u00e9\n\"\ud83d")"));
  EXPECT_FALSE(a->accepts("\"é\n\\\"😀\"")) << "a raw line break";
  EXPECT_TRUE(dead(*a, R"("\u00f)")) << "no allowed character begins so";
  EXPECT_TRUE(dead(*a, "\"\xC3\xA8"));
}

TEST(SchemaConstraint, GeneratedTextHasACanonicalForm) {
  auto a = schema_automaton(
      R"({"type": "object", "properties": {"a_b": {"type": "integer"}, "n": {"type": "number"}, "s": {"type": "string"}}, "additionalProperties": false})",
      "schema", JsonSpace::one);
  check(*a, {R"({"a_b":5})", R"({"n":-0.25,"s":"é \"\\ \n \u0001"})", R"({"n": 12})"},
        {R"({"a_b":5.0})", R"({"a\u005fb":5})", R"({"n":1.50})", R"({"n":1e2})", R"({"s":"\u00e9"})", R"({"s":"\/"})"});
  EXPECT_TRUE(schema_automaton(R"({"const": 1e30})", "schema", JsonSpace::one)->start() != Automaton::kDead);
  auto large = schema_automaton(R"({"enum": [1e30]})", "schema", JsonSpace::one);
  EXPECT_TRUE(large->accepts("1e30") || large->accepts("1000000000000000000000000000000"));
}

TEST(SchemaConstraint, NumbersAreComparedDigitByDigit) {
  check(R"({"type": "number", "minimum": -2.5, "exclusiveMaximum": 1000})",
        {"-2.5", "-2.50", "0", "-0.1", "999.999", "12"},
        {"-2.51", "-3", "1000", "1000.0", "1e2", "\"1\"", "01", "1.", ".5"});
  check(R"({"type": "integer"})", {"0", "-7", "3.0", "2e5", "12345678901234567890"}, {"3.1", "1e-2", "+1", "1e999"});
  check(R"({"multipleOf": 0.01})", {"1.25", "3", "0", "-0.07", "\"not a number\""}, {"1.255", "0.001"});
  check(R"({"type": "integer", "minimum": 9007199254740993})", {"9007199254740993"}, {"9007199254740992"});
}

TEST(SchemaConstraint, PlainNumbersHaveNoExponent) {
  EXPECT_EQ(with_plain_numbers(R"({"1e5":[1e-05,-2.50E+2,3.0,-0.0,0,1e21],"\\\"2e1":"\\","3e1":null})"),
            R"({"1e5":[0.00001,-250,3,0,0,1000000000000000000000],"\\\"2e1":"\\","3e1":null})");
  EXPECT_EQ(with_plain_numbers("1e-05"), "0.00001");
  EXPECT_EQ(with_plain_numbers("1e9999"), "1e9999");
}

TEST(SchemaConstraint, OnlyGeneratedNumbersHaveALimitedLength) {
  const char* schema = R"({"type": "number", "minimum": 0})";
  const std::string number = '1' + std::string(99, '0');
  EXPECT_TRUE(schema_automaton(schema, "schema", JsonSpace::any)->accepts(number));
  EXPECT_FALSE(schema_automaton(schema, "schema", JsonSpace::one)->accepts(number));
}

TEST(SchemaConstraint, MembersMayBeInAnyOrderAndNamedOnesOccurOnce) {
  const char* schema = R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                           "required": ["a"], "additionalProperties": false})";
  check(schema, {R"({"a":1})", R"({"b":"x","a":1})", R"( {"a" : 1, "b": "x"})"},
        {R"({})", R"({"b":"x"})", R"({"a":1,"a":2})", R"({"a":1,"c":2})", R"({"a":1,})", R"({"a":"1"})"});
  check(R"({"minProperties": 2, "maxProperties": 3})", {R"({"a":1,"b":2})"},
        {R"({"a":1})", R"({"a":1,"a":2})", R"({"a":1,"b":2,"c":3,"d":4})"});
}

TEST(SchemaConstraint, GeneratedMembersAreInTheOrderOfTheSchema) {
  const auto one = [](const char* schema) { return schema_automaton(schema, "schema", JsonSpace::one); };
  const char* open =
      R"({"type": "object", "properties": {"z": {}, "b": {}, "a": {}, "c": {}}, "required": ["a", "b"]})";
  check(*one(open), {R"({"z":1,"b":2,"a":3,"c":4,"x":5})", R"({"b":2,"a":3})", R"({"b":2,"a":3,"x":4,"y":5})"},
        {R"({"a":3,"b":2})", R"({"b":2,"z":1,"a":3})", R"({"x":5,"b":2,"a":3})", R"({"b":2,"a":3,"x":5,"c":4})"});
  check(open, {R"({"x":5,"a":3,"b":2})"}, {});
  EXPECT_TRUE(dead(*one(open), R"({"z":1,"a)")) << "b may not be passed over";
  const char* few = R"({"type": "object", "properties": {"z": {}}, "propertyNames": {"enum": ["a", "b", "z"]}})";
  check(*one(few), {R"({"z":1,"a":2,"b":3})", R"({"b":2,"a":3})"}, {R"({"a":2,"z":1})", R"({"a":2,"a":1})"});
  const char* counted = R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2,
                            "additionalProperties": false})";
  check(*one(counted), {R"({"a":1,"b":2})", R"({"a":1,"c":2})", R"({"b":1,"c":2})"}, {R"({"a":1})"});
  EXPECT_TRUE(dead(*one(counted), R"({"c)")) << "too few could follow";
}

// Names are remembered where they are few; then an object cannot go on for ever either.
TEST(SchemaConstraint, NamesOfASmallSetOccurOnce) {
  check(R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "boolean"},
            "minProperties": 1})",
        {R"({"a":true})", R"({"b":true,"a":false})"},
        {R"({"a":true,"a":false})", R"({"a":true,"b":true,"a":true})", "{}"});
  check(R"({"properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": {"type": "boolean"},
            "propertyNames": {"maxLength": 1, "pattern": "^[ab]$"}, "maxProperties": 3})",
        {R"({"a":1,"b":true})"}, {R"({"a":1,"b":true,"b":true})", R"({"a":1,"c":true})"});
  check(
      R"({"patternProperties": {"^x[0-9]$": {"type": "integer"}}, "additionalProperties": false, "minProperties": 10})",
      {R"({"x0":0,"x1":1,"x2":2,"x3":3,"x4":4,"x5":5,"x6":6,"x7":7,"x8":8,"x9":9})"},
      {R"({"x0":0,"x1":1,"x2":2,"x3":3,"x4":4,"x5":5,"x6":6,"x7":7,"x8":8,"x8":9})"});
  check(R"({"minProperties": 2, "propertyNames": {"enum": ["a"]}, "type": "object"})", {}, {R"({"a":1,"a":2})"});
}

TEST(SchemaConstraint, ItemsWithRepeatedNamesAreCompared) {
  check(R"({"type": "array", "uniqueItems": true})", {R"([{"a":1,"a":2},{"a":1}])"}, {R"([{"a":1,"a":2},{"a":2}])"});
}

TEST(SchemaConstraint, ExclusiveBranchesAndConditionsAreExact) {
  check(R"({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer", "minimum": 0, "maximum": 20})",
        {"2", "9"}, {"6", "12", "5"});
  check(
      R"({"if": {"properties": {"kind": {"const": "x"}}, "required": ["kind"]}, "then": {"required": ["y"]}, "else": {"required": ["z"]}})",
      {R"({"kind":"x","y":1})", R"({"kind":"q","z":1})", "7"}, {R"({"kind":"x","z":1})", R"({"kind":"q","y":1})"});
  check(R"({"not": {"type": ["object", "array", "string"]}})", {"1", "null", "true"}, {"\"\"", "{}", "[]"});
}

TEST(SchemaConstraint, ArraysCountAndCompareTheirItems) {
  check(R"({"contains": {"type": "integer"}, "minContains": 2, "maxContains": 2, "type": "array"})",
        {"[1,2]", "[\"a\",1,2.0]"}, {"[1]", "[1,2,3]"});
  check(R"({"uniqueItems": true, "type": "array"})", {"[1,2]", R"([{"a":1},{"a":2}])", "[1,\"1\",true]"},
        {"[1,1]", "[1,1.0]", R"([{"a":1,"b":2},{"b":2,"a":1}])"});
  check(R"({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false, "type": "array"})",
        {"[]", "[\"a\"]", "[\"a\",1]"}, {"[1]", "[\"a\",1,2]"});
}

TEST(SchemaConstraint, FormatsAreAsserted) {
  check(R"({"type": "string", "format": "date"})",
        {"\"2024-02-29\"", "\"2000-02-29\"", "\"0004-02-29\"", "\"0400-02-29\""},
        {"\"0000-01-01\"", "\"0000-02-29\"", "\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\""});
  check(R"({"type": "string", "format": "ipv6"})", {"\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"2001:db8::\""},
        {"\"1:2\"", "\"::1::\"", "\"12345::\""});
  check(R"({"type": "string", "format": "uuid"})", {"\"2eb8aa08-aa98-11ea-b4aa-73b441d16380\""},
        {"\"2eb8aa08aa9811eab4aa73b441d16380\""});
  check(R"({"type": "string", "format": "uri"})", {"\"http://foo.bar/?baz=qux#quux\"", "\"urn:isbn:0\""},
        {"\"/abc\"", "\"http:// x\"", "\"abc\""});
  check(R"({"type": "string", "format": "no-such-format"})", {"\"anything\""}, {"1"});
}

TEST(SchemaConstraint, ReferencesAreFollowedToAnchorsIdentifiersAndThemselves) {
  check(
      R"({"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}, "additionalProperties": false, "type": "object"})",
      {R"({"v":1,"next":{"next":{"v":2}}})"}, {R"({"next":{"next":{"v":"2"}}})"});
  check(
      R"({"$id": "http://a.b/c.json", "$defs": {"x": {"$id": "d.json", "$anchor": "e", "type": "null"}}, "items": {"$ref": "d.json#e"}, "type": "array"})",
      {"[null]"}, {"[1]"});
  check(
      R"({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a~/b": {"type": "null"}}, "$ref": "#/definitions/a~0~1b", "type": "string"})",
      {"null"}, {"\"x\""});
}

TEST(SchemaConstraint, ADynamicReferenceWithOneAnchorIsAReference) {
  check(
      R"({"$dynamicAnchor": "node", "type": "object", "properties": {"next": {"$dynamicRef": "#node"}}, "additionalProperties": false})",
      {R"({"next":{"next":{}}})"}, {R"({"next":{"last":{}}})"});
  check(
      R"({"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"next": {"$recursiveRef": "#"}}, "type": "object"})",
      {R"({"next":{"next":{}}})"}, {R"({"next":{"next":1}})"});
}

TEST(SchemaConstraint, MembersThatNoKeywordEvaluatesAreUnevaluated) {
  const std::string base =
      R"("$defs": {"b": {"properties": {"a": {"type": "integer"}}}}, "type": "object", "unevaluatedProperties": false, )";
  check("{" + base + R"("allOf": [{"$ref": "#/$defs/b"}], "properties": {"c": true}})", {"{}", R"({"a":1,"c":2})"},
        {R"({"a":"x"})", R"({"d":1})"});
  check(
      "{" + base +
          R"("anyOf": [{"properties": {"k": {"const": 1}, "x": true}, "required": ["k"]}, {"required": ["k", "y"], "properties": {"k": true, "y": true}}]})",
      {R"({"k":1,"x":2})", R"({"k":1,"x":2,"y":3})", R"({"k":2,"y":3})"},
      {R"({"k":2,"x":3,"y":3})", R"({"k":1,"z":3})"});
  check(
      "{" + base +
          R"("if": {"required": ["k"], "properties": {"k": {"const": 1}}}, "then": {"properties": {"x": true}}, "else": {"properties": {"y": true}}})",
      {R"({"k":1,"x":1})", R"({"y":1})", "{}"}, {R"({"k":1,"y":1})", R"({"x":1})", R"({"k":2})"});
  check(R"({"not": {"properties": {"a": true}, "unevaluatedProperties": false}, "type": "object"})", {R"({"b":1})"},
        {"{}", R"({"a":1})"});
  check(R"({"allOf": [{"prefixItems": [{"type": "null"}]}], "unevaluatedItems": {"type": "string"}, "type": "array"})",
        {"[null,\"a\"]", "[]"}, {"[null,1]", "[\"a\"]"});
}

// Conditions on one member, as in published schemas: expanded, they would be 2 to the power of their number.
TEST(SchemaConstraint, ExclusiveAlternativesDoNotMultiply) {
  std::string conditions, branches, patterns;
  for (int i = 0; i < 24; ++i) {
    const std::string k = std::to_string(i), comma = i ? "," : "";
    conditions += comma + R"({"if": {"properties": {"k": {"const": )" + k +
                  R"(}}, "required": ["k"]}, "then": {"required": ["m)" + k + R"("]}})";
    branches += comma + R"({"properties": {"k": {"const": )" + k + R"(}, "m": {"minimum": )" + k +
                R"(, "type": "number"}}, "additionalProperties": false})";
    patterns += comma + R"("^p)" + k + R"(_": {"const": )" + k + "}";
  }
  check(R"({"type": "object", "allOf": [)" + conditions + "]}", {R"({"k":7,"m7":0})", R"({"k":99})", "{}"},
        {R"({"k":7})", R"({"k":23,"m7":0})"});
  check(R"({"type": "object", "oneOf": [)" + branches + "]}", {R"({"k":7,"m":8})"},
        {R"({"k":7,"m":6})", "{}", R"({"m":30})"});
  check(R"({"type": "object", "patternProperties": {)" + patterns + R"(}, "additionalProperties": false})",
        {R"({"p7_x":7,"p23_":23})"}, {R"({"p7_":8})", R"({"q":7})"});
}

TEST(SchemaConstraint, UnsupportedKeywordsAreRejectedByName) {
  auto error = [](const char* schema) {
    try {
      schema_automaton(schema, "s.json");
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error(R"({"properties": {"a": {"divisibleBy": 2}}})"),
            "s.json: 'divisibleBy' at #/properties/a: not supported");
  EXPECT_THAT(error(R"({"$dynamicRef": "#a", "$defs": {"x": {"$dynamicAnchor": "a"}, "y": {"$dynamicAnchor": "a"}}})"),
              testing::HasSubstr("there are 2 '$dynamicAnchor's 'a'"));
  EXPECT_THAT(error(R"({"$ref": "other.json#/x"})"),
              testing::HasSubstr("references to other documents are not supported"));
  EXPECT_THAT(error(R"({"pattern": "(a)\\1"})"), testing::HasSubstr("back-references are not supported"));
  EXPECT_THAT(error(R"({"type": "text"})"), testing::HasSubstr("'type' at #"));
  EXPECT_THAT(error(R"({"$ref": "#"})"), testing::HasSubstr("leads back to itself"));
  EXPECT_THAT(error(R"({"minLength": -1})"), testing::HasSubstr("'minLength' at #"));
}

TEST(SchemaConstraint, AnUnsatisfiableSchemaAcceptsNothing) {
  for (const char* schema : {"false", R"({"enum": []})", R"({"type": "string", "minLength": 3, "maxLength": 2})",
                             R"({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}})"})
    EXPECT_EQ(schema_automaton(schema, "schema")->start(), Automaton::kDead) << schema;
}

TEST(SchemaConstraint, LargeBoundsAreFast) {
  check(R"({"type": "string", "minLength": 1, "maxLength": 1000000000})", {"\"a\""}, {"\"\""});
  std::string choices = R"({"enum": [)";
  for (int i = 0; i < 10000; ++i) choices += fmt::format("{}\"value {} of many\"", i ? "," : "", i * 7919 % 10007);
  check(choices + "]}", {"\"value 5 of many\""}, {"\"value x\""});
}

TEST(SchemaSpace, AtMostOneBlankInGeneratedText) {
  const char* schema =
      R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": {}}})";
  auto any = schema_automaton(schema, "s"), one = schema_automaton(schema, "s", JsonSpace::one);
  for (const char* both : {R"({"a":[1,2],"b":{}})", R"({"a": [1, 2], "b": {"c": null}})"}) {
    EXPECT_TRUE(any->accepts(both)) << both;
    EXPECT_TRUE(one->accepts(both)) << both;
  }
  for (const char* spaced : {R"( {"a":[1]})", R"({ "a":[1]})", R"({"a" :[1]})", R"({"a":  [1]})", "{\"a\":\n[1]}",
                             R"({"a":[ 1]})", R"({"a":[1] })", R"({"a":[1]} )"}) {
    EXPECT_FALSE(one->accepts(spaced)) << spaced;
  }
}

TEST(SchemaConstraint, KnowsTheSchemasOfSchemas) {
  check(R"({"$ref": "http://json-schema.org/draft-07/schema#"})",
        {R"({"type":"string","minLength":3})", "true", R"({"properties":{"a":{"not":{"const":null}}}})"},
        {R"({"type":"strin"})", R"({"minLength":-1})", R"({"properties":{"a":{"minimum":"0"}}})", "3"});
  check(R"({"$ref": "http://json-schema.org/draft-04/schema"})", {R"({"minimum":1,"exclusiveMinimum":true})"},
        {"true", R"({"exclusiveMinimum":1})", R"({"exclusiveMinimum":true})", R"({"required":[]})"});
  check(R"({"$schema": "https://json-schema.org/draft/2020-12/schema",
           "properties": {"s": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
                          "n": {"$ref": "http://json-schema.org/draft-06/schema#/definitions/nonNegativeInteger"}}})",
        {R"({"s":{"prefixItems":[{"$dynamicRef":"#a"}]},"n":3})"}, {R"({"s":{"prefixItems":[]}})", R"({"n":-3})"});
}

TEST(SchemaConstraint, ReadsAPointerToNothingAsTheWholeSchema) {
  check(R"({"properties": {"a": {"$ref": "#/"}}, "additionalProperties": false})", {R"({"a":{"a":{}}})"},
        {R"({"a":{"b":{}}})"});
}

// What would take long is found out before the first byte is read, not while a text is written.
TEST(SchemaConstraint, LooksThroughAlternativesBeforehand) {
  Json all = Json::array();
  for (int i = 0; i < 5; ++i) {
    Json any = Json::array();
    for (int k = 0; k < 6; ++k) {
      const std::string p = "p" + std::to_string(i), q = "q" + std::to_string(i) + "_" + std::to_string(k);
      any.push_back({{"properties", {{p, {{"minimum", k}}}}}, {"required", Json::array({q})}});
    }
    all.push_back({{"oneOf", any}});
  }
  const Json deep{{"type", "array"},
                  {"items", {{"anyOf", {{{"type", "object"}, {"allOf", all}}, {{"type", "string"}}}}}}};
  try {
    schema_automaton(deep.dump(), "schema");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("take too long"));
  }
}

}  // namespace
}  // namespace dml
