// Fields of requests, and what is said of wrong ones.
#include "serve/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/tools.h"

namespace dml {
namespace {

using testing::HasSubstr;

ApiError error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const ApiError& e) {
    return e;
  }
  ADD_FAILURE() << "accepted";
  return {};
}

TEST(Fields, ReadsTypesAndRanges) {
  const Json body = Json::parse(
      R"({"a": 1.0, "b": null, "c": "x", "d": ["p", "q"], "e": 18446744073709551615, "f": true, "g": 2.5})");
  Fields f(body);
  EXPECT_EQ(f.integer("a", 7, 0, 3), 1);
  EXPECT_EQ(f.integer("b", 7, 0, 3), 7);
  EXPECT_EQ(f.text("c"), "x");
  EXPECT_EQ(f.texts("d", 2).size(), 2u);
  EXPECT_TRUE(f.flag("f", false));
  EXPECT_EQ(f.number("g", 0, 0, 3), 2.5);
  EXPECT_EQ(error_of([&] { f.integer("e", 0, 0, 100); }).param, "e");
  EXPECT_EQ(error_of([&] { f.integer("g", 0, 0, 100); }).param, "g");
  EXPECT_THAT(error_of([&] { f.number("c", 0, 0, 1); }).message, HasSubstr("must be a number, is string"));
  EXPECT_THAT(error_of([&] { f.number("g", 0, 0, 2); }).message, HasSubstr("from 0 to 2"));
  EXPECT_THAT(error_of([&] { f.texts("d", 1); }).message, HasSubstr("2 entries"));
}

TEST(Fields, RefusesWhatNobodyAskedFor) {
  const Json body = {{"temprature", 1}, {"user", "x"}};
  Fields f(body);
  f.number("temperature", 0, 0, 1);
  const ApiError e = error_of([&] { f.refuse_others({"user"}); });
  EXPECT_EQ(e.param, "temprature");
  EXPECT_THAT(e.message, HasSubstr("temperature"));
  EXPECT_EQ(e.json()["error"]["type"], "invalid_request_error");
}

TEST(Tools, AreCheckedAndMadeAConstraint) {
  const Json body =
      Json::parse(R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}}}], "tool_choice": "required"})");
  Fields f(body);
  const ToolsAsked asked = read_tools(f, ToolStyle::hermes);
  EXPECT_TRUE(asked.parse);
  EXPECT_EQ(asked.opened, "<tool_call>\n");
  EXPECT_TRUE(asked.required);
  const auto call = call_constraint_automaton(call_constraint(asked, {ToolStyle::hermes}, ""));
  EXPECT_TRUE(call->accepts(R"({"name": "f", "arguments": {"x": 1}})"));
  EXPECT_FALSE(call->accepts(R"({"name": "f", "arguments": {"x": "1"}})"));
  EXPECT_FALSE(call->accepts(R"({"name": "g", "arguments": {}})"));

  for (const char* wrong :
       {R"({"tools": []})", R"({"tools": [{}]})", R"({"tools": [{"type": "function", "function": {}}]})",
        R"({"tool_choice": "required"})", R"({"tools": 3})"}) {
    const Json bad = Json::parse(wrong);
    EXPECT_FALSE(error_of([&] {
                   Fields fields(bad);
                   read_tools(fields, ToolStyle::hermes);
                 }).param.empty())
        << wrong;
  }
  EXPECT_EQ(error_of([&] {
              Fields fields(body);
              read_tools(fields, ToolStyle::none);
            }).param,
            "tools");
}

}  // namespace
}  // namespace dml
