// Schemas with many alternatives: branches that exclude each other, conditions that stand together, and what is left
// when branches have looked at members and items.
#include <gtest/gtest.h>

#include <functional>

#include "constraint/constraint_check.h"

namespace dml {
namespace {

std::string list_of(int count, const std::function<std::string(int)>& each) {
  std::string out = "[";
  for (int i = 0; i < count; ++i) out += (i ? "," : "") + each(i);
  return out + "]";
}

std::string kind(int i) {
  return fmt::format(
      R"({{"type": "object", "properties": {{"kind": {{"const": "k{0}"}}, "p{1}": {{"type": "integer"}}}},
                         "required": ["kind"], "additionalProperties": false}})",
      i, i % 3);
}

TEST(SchemaBranches, ConstantsExcludeEachOther) {
  const std::string many = list_of(2000, [](int i) { return fmt::format(R"({{"const": "v{0}", "title": "t"}})", i); });
  check(R"({"oneOf": )" + many + "}", {"\"v0\"", "\"v1999\""}, {"\"v2000\"", "0"});
  // What two branches have is in neither, also where a third has it.
  check(R"({"oneOf": [{"const": 1}, {"const": 2}, {"enum": [1.0, 3]}, {"enum": [4, 5]}]})", {"2", "3", "4", "5"},
        {"1", "6"});
  check(R"({"oneOf": [{"const": 1}, {"enum": [1]}, {"type": "integer", "maximum": 1}]})", {"0"}, {"1", "2"});
  check(R"({"oneOf": [{"const": "a"}, {"const": "b"}, {"type": "string", "pattern": "^a"}]})", {"\"b\"", "\"ab\""},
        {"\"a\"", "\"c\""});
}

TEST(SchemaBranches, ObjectsExcludeEachOtherByAMember) {
  const std::string many = list_of(300, kind);
  check(R"({"oneOf": )" + many + "}", {R"({"kind":"k299","p2":1})", R"({"kind":"k0"})"},
        {R"({"kind":"k300"})", R"({"kind":"k0","p1":1})", "{}", "1"});
  std::string defs = R"({"$defs": {)";
  for (int i = 0; i < 300; ++i) defs += fmt::format(R"({}"d{}": {})", i ? "," : "", i, kind(i));
  const std::string refs = list_of(300, [](int i) { return fmt::format(R"({{"$ref": "#/$defs/d{}"}})", i); });
  check(defs + R"(}, "oneOf": )" + refs + "}", {R"({"kind":"k7","p1":1})"}, {R"({"kind":"k7","p0":1})"});
  // Without a type a branch holds of what is no object: of both of these, then.
  check(
      R"({"oneOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"a": {"const": 2}}, "required": ["a"]}]})",
      {R"({"a":1})", R"({"a":2,"b":3})"}, {"3", R"({"a":3})", "{}"});
  // Nor does a member that may be missing keep them apart.
  check(
      R"({"oneOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"type": "object", "properties": {"a": {"const": 2}}, "required": ["a"]}]})",
      {"{}", R"({"a":1})", R"({"a":2})"}, {R"({"a":3})"});
}

TEST(SchemaBranches, ThousandsOfAlternativesAreAllKept) {
  check(R"({"anyOf": )" + list_of(2000, kind) + "}", {R"({"kind":"k1999","p1":1})", R"({"kind":"k1000"})"},
        {R"({"kind":"k2000"})"});
}

TEST(SchemaBranches, ExactlyOneOfManyMembers) {
  auto needs = [](int i) {
    return fmt::format(
        R"({{"type": "object", "properties": {{"q{0}": {{"type": "integer"}}, "name": {{"type": "string"}}}}, "required": ["q{0}"]}})",
        i);
  };
  check(R"({"oneOf": )" + list_of(20, needs) + "}",
        {R"({"q3":1})", R"({"name":"a","q19":0})", R"({"q3":1,"q4":"no integer, so the other does not hold"})"},
        {"{}", R"({"q3":1,"q4":1})", R"({"q3":1,"name":7})", R"({"q3":"x"})"});
  check(R"({"not": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a", "b"]}})",
        {"1", "[]", "{}", R"({"a":1})", R"({"a":2,"b":1})", R"({"b":1})"}, {R"({"a":1,"b":1})"});
}

TEST(SchemaBranches, UnevaluatedMembersAfterBranches) {
  auto has = [](int i) {
    return fmt::format(R"({{"properties": {{"a{0}": {{"type": "integer"}}}}, "required": ["a{0}"]}})", i);
  };
  check(R"({"type": "object", "anyOf": )" + list_of(8, has) + R"(, "unevaluatedProperties": false})",
        {R"({"a3":1})", R"({"a0":1,"a7":2})"}, {R"({"a3":"x"})", R"({"a3":1,"a4":"x"})", R"({"a3":1,"b":1})", "{}"});
  auto when = [](int i) {
    return fmt::format(
        R"({{"if": {{"properties": {{"k": {{"const": {0}}}}}, "required": ["k"]}}, "then": {{"properties": {{"a{0}": true}}}}}})",
        i);
  };
  check(R"({"type": "object", "properties": {"k": true}, "allOf": )" + list_of(10, when) +
            R"(, "unevaluatedProperties": false})",
        {R"({"k":3,"a3":1})", R"({"k":9})", "{}"}, {R"({"k":3,"a4":1})", R"({"a3":1})"});
  check(
      R"({"anyOf": [{"patternProperties": {"^x": {"type": "integer"}}, "required": ["x1"]}, {"required": ["y"]}], "unevaluatedProperties": {"type": "null"}, "type": "object"})",
      {R"({"x1":1,"x2":2,"z":null})", R"({"y":null})"}, {R"({"y":1})", R"({"y":null,"x2":2})", R"({"x1":1,"z":2})"});
}

// The members that are left are known branch by branch, however the branches exclude each other.
TEST(SchemaBranches, UnevaluatedMembersAfterOneOf) {
  auto kinds = [](int i) {
    return fmt::format(
        R"({{"properties": {{"kind": {{"const": "k{0}"}}, "p{0}": {{"type": "integer"}}, "q{1}": true}}, "required": ["kind"]}})",
        i, i % 7);
  };
  const std::vector<std::string> valid{R"({"id":1,"kind":"k3","p3":2})", R"({"kind":"k39","q4":null})",
                                       R"({"kind":"k0"})"},
      invalid{R"({"kind":"k3","p4":2})",
              R"({"kind":"k3","p3":"x"})",
              R"({"kind":"k40"})",
              R"({"kind":"k3","q4":1})",
              R"({"id":1})",
              "{}",
              "3"};
  const std::string many = list_of(40, kinds), head = R"({"type": "object", "properties": {"id": true}, )";
  check(head + R"("oneOf": )" + many + R"(, "unevaluatedProperties": false})", valid, invalid);
  check(
      head +
          R"("allOf": [{"$ref": "#/$defs/d"}], "unevaluatedProperties": false, "$defs": {"d": {"type": "object", "oneOf": )" +
          many + "}}}",
      valid, invalid);
  auto needs = [](int i) {
    return fmt::format(R"({{"properties": {{"a{0}": {{"type": "integer"}}, "b{1}": true}}, "required": ["a{0}"]}})", i,
                       i % 5);
  };
  check(R"({"type": "object", "unevaluatedProperties": {"type": "null"}, "oneOf": )" + list_of(40, needs) + "}",
        {R"({"a3":1})", R"({"a3":1,"b3":2,"x":null})", R"({"a39":1,"a38":null})"},
        {R"({"a3":1,"b2":2})", R"({"a3":1,"a4":2})", R"({"a3":"x"})", R"({"a3":1,"a4":"x"})", "{}"});
  // Branches that may hold together, but not where the members of the others are ruled out.
  auto pairs = [](int i) {
    return fmt::format(
        R"({{"properties": {{"a{0}": {{"type": "integer"}}, "b{0}": {{"type": "string"}}}}, "required": ["a{0}"]}})",
        i);
  };
  const std::vector<std::string> paired{R"({"a3":1,"b3":"x"})", R"({"a39":1})"},
      unpaired{R"({"a3":1,"b4":"x"})", R"({"a3":1,"b3":1})", R"({"a3":1,"a4":1})", R"({"b3":"x"})", "{}"};
  check(R"({"type": "object", "unevaluatedProperties": false, "oneOf": )" + list_of(40, pairs) + "}", paired, unpaired);
  check(R"({"type": "object", "unevaluatedProperties": false, "allOf": [{"oneOf": )" + list_of(40, pairs) + "}]}",
        paired, unpaired);
  // Without a type every branch holds of what is no object, so no such value is the one's.
  check(R"({"properties": {"id": true}, "unevaluatedProperties": false, "allOf": [{"oneOf": )" + many + "}]}", valid,
        invalid);
  // A branch that is true looks at nothing; one that has branches itself tells of those that hold.
  check(R"({"type": "object", "oneOf": [{"required": ["x"], "properties": {"x": true}}, {"not": {"required": ["x"]}}],
      "unevaluatedProperties": false})",
        {R"({"x":1})", "{}"}, {R"({"y":1})", R"({"x":1,"y":1})"});
  check(
      R"({"type": "object", "oneOf": [{"required": ["x"], "properties": {"x": true}, "anyOf": [{"properties": {"y": {"type":
      "null"}}, "required": ["y"]}, {"properties": {"z": true}}]}, {"maxProperties": 0}], "unevaluatedProperties": false})",
      {R"({"x":1,"y":null})", R"({"x":1,"z":2})", R"({"x":1})", "{}"}, {R"({"x":1,"y":2})", R"({"y":null})"});
  check(
      R"({"type": "array", "oneOf": [{"prefixItems": [{"const": 1}, true]}, {"prefixItems": [{"const": 2}], "minItems": 1}],
      "minItems": 1, "unevaluatedItems": false})",
      {"[1]", "[1,5]", "[2]"}, {"[1,5,6]", "[2,5]", "[3]", "[]"});
}

TEST(SchemaBranches, UnevaluatedItemsAfterBranches) {
  const char* schema =
      R"({"type": "array", "prefixItems": [{"type": "string"}], "anyOf": [{"prefixItems": [true, {"type":
    "integer"}], "minItems": 2}, {"prefixItems": [true, {"type": "null"}, {"type": "null"}], "minItems": 3}], "unevaluatedItems": false})";
  check(schema, {R"(["a",1])", R"(["a",null,null])"}, {R"(["a",1,2])", R"(["a",null])", R"(["a",1,null])", R"(["a"])"});
  check(R"({"type": "array", "contains": {"type": "string"}, "unevaluatedItems": {"type": "integer"}})",
        {R"(["a",1])", R"(["a","b"])", R"([1,"a"])"}, {"[1]", R"(["a",null])", "[]"});
}

TEST(SchemaFormats, AcceptUsualValues) {
  const std::pair<const char*, const char*> right[] = {{"hostname", "ec2-1-2-3-4.us-west-2.compute.amazonaws.com"},
                                                       {"email", "a.b+c@mail.x.y.z.example.org"},
                                                       {"idn-hostname", "\u00fcber.\u4f8b\u5b50"},
                                                       {"idn-email", "\u00fc@\u4f8b.org"},
                                                       {"iri", "http://\u00fc.de/\u4f8b?a=\u00e4#b"},
                                                       {"iri-reference", "../\u00fc"},
                                                       {"regex", "^(?:[a-z_]+|\\\\d{2,13})*\\\\.(a|b(c|d)?)$"}};
  for (auto& [format, text] : right)
    EXPECT_TRUE(
        schema_automaton(fmt::format(R"({{"format": "{}"}})", format), "s")->accepts(fmt::format("\"{}\"", text)))
        << format;
  const std::pair<const char*, const char*> wrong[] = {{"hostname", "a..b"},
                                                       {"hostname", "-a.b"},
                                                       {"idn-hostname", "\u00fc--b"},
                                                       {"iri", "http://\u00fc b"},
                                                       {"uri", "http://\u00fc/"},
                                                       {"regex", "(a"},
                                                       {"regex", "a)"},
                                                       {"regex", "*a"},
                                                       {"regex", "a{3,1}"},
                                                       {"regex", "[b-a]"}};
  for (auto& [format, text] : wrong)
    EXPECT_FALSE(
        schema_automaton(fmt::format(R"({{"format": "{}"}})", format), "s")->accepts(fmt::format("\"{}\"", text)))
        << format;
}

TEST(SchemaReferences, MembersMayHaveTheNamesOfKeywords) {
  check(
      R"({"$id": "http://x/y", "properties": {"default": {"$ref": "#/$defs/n"}, "enum": {"$id": "z", "$ref": "#/$defs/m", "$defs": {"m": {"type": "null"}}}},
            "$defs": {"n": {"type": "integer"}}, "type": "object"})",
      {R"({"default":1,"enum":null})"}, {R"({"default":"x"})", R"({"enum":1})"});
}

}  // namespace
}  // namespace dml
