// Fields of requests, and the errors of invalid ones.
#include "serve/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/messages.h"
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

TEST(Fields, RejectsUnknownFields) {
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
  EXPECT_EQ(asked.opened, "<tool_call>");
  EXPECT_FALSE(asked.one);
  EXPECT_TRUE(asked.required);
  const auto call = call_constraint(asked, {ToolStyle::hermes}, "");
  EXPECT_TRUE(call->accepts("\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"));
  EXPECT_FALSE(call->accepts("\n{\"name\": \"f\", \"arguments\": {\"x\": \"1\"}}\n</tool_call>"));
  EXPECT_FALSE(call->accepts("\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"));

  for (const char* wrong :
       {R"({"tools": []})", R"({"tools": [{}]})", R"({"tools": [{"type": "function", "function": {}}]})",
        R"({"tool_choice": "required"})", R"({"tools": 3})",
        R"({"tools": [{"function": {"name": "f"}}], "tool_choice": 17})",
        R"({"tools": [{"function": {"name": "f"}}], "tool_choice": ["auto"]})",
        R"({"tools": [{"function": {"name": "f"}}], "tool_choice": {"type": "custom", "function": {"name": "f"}}})"}) {
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

TEST(Tools, ANamedToolIsCalledOnce) {
  const Json body = Json::parse(R"({"tools": [{"type": "function", "function": {"name": "f"}},
    {"type": "function", "function": {"name": "g"}}], "tool_choice": {"type": "function", "function": {"name": "g"}}})");
  Fields f(body);
  const ToolsAsked asked = read_tools(f, ToolStyle::hermes);
  EXPECT_TRUE(asked.one && asked.required);
  ASSERT_EQ(asked.functions.size(), 1u);
  EXPECT_EQ(asked.functions[0]["name"], "g");
}

Json messages_of(const char* body, const std::string& chat_template = "") {
  const Json json = Json::parse(body);
  Fields f(json);
  return read_messages(f, chat_template);
}

TEST(Messages, HaveTheFormOfTemplates) {
  const char* body =
      R"({"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type":
    "text", "text": "Hi"}]}, {"role": "assistant", "content": null, "reasoning": "so", "tool_calls": [{"id": "1", "type":
    "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "7"}]})";
  const Json plain = messages_of(body), knows = messages_of(body, "{% if role == 'developer' %}");
  EXPECT_EQ(plain[0]["role"], "system");
  EXPECT_EQ(knows[0]["role"], "developer");
  EXPECT_EQ(plain[2]["reasoning_content"], "so");
  EXPECT_FALSE(plain[2].contains("reasoning"));
  EXPECT_EQ(plain[3]["content"], "7");
}

TEST(Messages, ThatAreWrongAreNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": [3]})", "messages[0]"},
      {R"({"messages": [{"content": "x"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": null, "tool_calls": [{"function": {"name": "f"}}]}]})",
       "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": 7}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]})",
       "messages[0].content[1].type"},
      {R"({"messages": [{"role": "assistant", "tool_calls": []}]})", "messages[0].tool_calls"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]})", "messages[0].tool_calls[0].function"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 7}}]}]})",
       "messages[0].tool_calls[0].function.arguments"},
      {R"({"messages": [{"role": "user", "content": "x", "name": 7}]})", "messages[0].name"}};
  for (auto& [body, param] : wrong) EXPECT_EQ(error_of([&] { messages_of(body); }).param, param) << body;
}

}  // namespace
}  // namespace dml
