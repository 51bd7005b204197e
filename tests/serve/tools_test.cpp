// Calls of tools as constraints on replies: any text up to a call, then calls that fit, in the form of each family.
// What is accepted is what the parser of replies takes apart.
#include "serve/tools.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "constraint/token_mask.h"
#include "prompt/chat_formats.h"

namespace dml {
namespace {

const Json kTools = Json::parse(R"([
  {"name": "get", "parameters": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"],
                                 "additionalProperties": false, "$defs": {"n": {"type": "integer"}}}},
  {"name": "get_all", "parameters": {"type": "object", "properties": {"deep": {"$ref": "#"}}, "additionalProperties": false}}])");

struct Form {
  ToolStyle style = ToolStyle::hermes;
  bool required = false, one = false, reasoning = false, inside_reasoning = false;
  std::string chat_template = {};
};

std::unique_ptr<Automaton> automaton(const Form& form) {
  ToolsAsked asked;
  asked.functions = kTools;
  asked.required = form.required;
  asked.one = form.one;
  ReplyParser::Format reply{form.style, form.reasoning, form.inside_reasoning};
  return call_constraint(asked, reply, form.chat_template);
}

std::vector<std::string> calls_in(ToolStyle style, const std::string& text) {
  ReplyParser parser({style});
  std::vector<std::string> out;
  for (const ReplyParser::Piece& piece : {parser.push(text), parser.finish()})
    for (const ToolCall& call : piece.calls) out.push_back(call.name + call.arguments);
  return out;
}

const std::string kOne = R"({"name": "get", "arguments": {"a": 1}})",
                  kTwo = R"({"name": "get_all", "arguments": {"deep": {}}})";

TEST(CallConstraint, LeavesTextFreeUpToACall) {
  for (bool llama : {false, true}) {
    auto a = automaton({.style = llama ? ToolStyle::llama : ToolStyle::hermes});
    for (const char* text : {"", "Hello!", "a < b <tool", "{}", "{\"nam", "x {\"name\": 7}", "<<tool_call", "\xFF"}) {
      EXPECT_TRUE(a->accepts(text)) << text;
      const Automaton::State s = a->after(a->start(), text);
      EXPECT_TRUE(a->free(s)) << text;
      EXPECT_FALSE(a->only_byte(s)) << text;
    }
  }
}

TEST(CallConstraint, ParametersKeepTheirOwnUri) {
  const auto calls = [](const char* functions) {
    ToolsAsked asked;
    asked.functions = Json::parse(functions);
    return call_constraint(asked, {ToolStyle::hermes}, "");
  };
  auto own =
      calls(R"([{"name": "f", "parameters": {"$id": "https://e.x/p", "type": "object", "additionalProperties": false,
    "properties": {"a": {"$ref": "https://e.x/p#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}}])");
  EXPECT_TRUE(own->accepts("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"));
  EXPECT_FALSE(own->accepts("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}\n</tool_call>"));
  // Two functions of one URI: each refers to itself.
  auto same = calls(R"([
    {"name": "f", "parameters": {"$id": "u", "type": "object", "additionalProperties": false,
                                 "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}},
    {"name": "g", "parameters": {"$id": "u", "type": "object", "additionalProperties": false,
                                 "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "string"}}}}])");
  EXPECT_TRUE(same->accepts("<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": \"1\"}}\n</tool_call>"));
  EXPECT_FALSE(same->accepts("<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": 1}}\n</tool_call>"));
}

TEST(CallConstraint, CallsOfHermesFitTheirTools) {
  auto a = automaton({});
  const std::string begin = "I look.\n<tool_call>\n", end = "\n</tool_call>";
  EXPECT_TRUE(a->accepts(begin + kOne + end));
  EXPECT_TRUE(a->accepts(begin + kOne + end + "\n<tool_call>\n" + kTwo + end));
  EXPECT_EQ(calls_in(ToolStyle::hermes, begin + kOne + end + "\n<tool_call>\n" + kTwo + end).size(), 2u);
  EXPECT_TRUE(a->accepts("<<tool_call>\n" + kOne + end));
  EXPECT_FALSE(a->accepts(begin + kOne)) << "the call is open";
  EXPECT_FALSE(a->accepts(begin + kOne + end + "x"));
  EXPECT_FALSE(a->accepts(begin + R"({"name": "got", "arguments": {"a": 1}})" + end));
  EXPECT_FALSE(a->accepts(begin + R"({"name": "get", "arguments": {"a": "1"}})" + end));
  EXPECT_FALSE(a->accepts(begin + R"({"name": "get_all", "arguments": {"deep": {"a": 1}}})" + end));
  EXPECT_EQ(a->only_byte(a->after(a->start(), "so <tool_call>")), '\n');
  EXPECT_FALSE(a->free(a->after(a->start(), begin)));
}

TEST(CallConstraint, OneCallIsTheLast) {
  auto a = automaton({.one = true});
  const std::string call = "<tool_call>\n" + kOne + "\n</tool_call>";
  EXPECT_TRUE(a->accepts(call));
  EXPECT_FALSE(a->accepts(call + "\n" + call));
}

TEST(CallConstraint, ReasoningIsNotACall) {
  auto a = automaton({.reasoning = true});
  EXPECT_TRUE(a->accepts("<think>I could <tool_call> {7} here</think>\n\nNo."));
  EXPECT_TRUE(a->accepts("<think>well</think><tool_call>\n" + kOne + "\n</tool_call>"));
  EXPECT_FALSE(a->accepts("<think>well</think><tool_call>\n{7}\n</tool_call>"));
  EXPECT_FALSE(a->accepts("No <think><tool_call> {7}"));
  auto inside = automaton({.reasoning = true, .inside_reasoning = true});
  EXPECT_TRUE(inside->accepts("perhaps <tool_call> 7 </think> ok"));
}

TEST(CallConstraint, CallsOfMistralAreAListOrNamed) {
  auto list = automaton({.style = ToolStyle::mistral});
  EXPECT_TRUE(list->accepts("[TOOL_CALLS][" + kOne + ", " + kTwo + "]"));
  EXPECT_FALSE(list->accepts("[TOOL_CALLS][]"));
  EXPECT_FALSE(list->accepts("[TOOL_CALLS]get[ARGS]{\"a\": 1}"));
  EXPECT_FALSE(
      automaton({.style = ToolStyle::mistral, .one = true})->accepts("[TOOL_CALLS][" + kOne + ", " + kTwo + "]"));
  for (bool required : {false, true}) {
    auto named =
        automaton({.style = ToolStyle::mistral, .required = required, .chat_template = "[TOOL_CALLS] x [ARGS]"});
    const std::string front = required ? "" : "[TOOL_CALLS]";
    EXPECT_TRUE(named->accepts(front + "get[ARGS]{\"a\": 1}"));
    EXPECT_TRUE(named->accepts(front + "get_all[ARGS]{\"deep\": {\"deep\": {}}}"));
    EXPECT_FALSE(named->accepts(front + "get_a[ARGS]{}"));
    EXPECT_FALSE(named->accepts(front + "get_all[ARGS]{\"a\": 1}"));
    EXPECT_TRUE(named->accepts(front + "get[ARGS]{\"a\": 1}[TOOL_CALLS]get_all[ARGS]{}"));
    EXPECT_TRUE(named->free(named->after(named->start(), front + "get[ARGS]{\"a\": 1}"))) << "the mark is special";
  }
}

TEST(CallConstraint, CallsOfLlamaAreTheWholeReply) {
  auto a = automaton({.style = ToolStyle::llama});
  const std::string call = R"({"name": "get", "parameters": {"a": 1}})";
  for (const std::string front : {"", "\n", "<|python_tag|>"}) {
    EXPECT_TRUE(a->accepts(front + call));
    EXPECT_FALSE(a->accepts(front + R"({"name": "get", "parameters": {}})"));
    EXPECT_EQ(calls_in(ToolStyle::llama, front + call).size(), 1u);
  }
  EXPECT_TRUE(a->accepts(R"({"answer": 42})"));
  EXPECT_TRUE(a->accepts("So: " + call + " or not"));
}

// The prompt has the mark.
TEST(CallConstraint, RequiredCallsStandAlone) {
  auto a = automaton({.required = true}), one = automaton({.required = true, .one = true});
  const std::string close = "\n</tool_call>", call = "\n" + kOne + close, more = "\n<tool_call>\n" + kTwo + close;
  EXPECT_TRUE(a->accepts(call));
  EXPECT_TRUE(a->accepts("\n" + kTwo + close));
  EXPECT_TRUE(a->accepts(call + more));
  EXPECT_TRUE(one->accepts(call));
  EXPECT_FALSE(one->accepts(call + more));
  for (const std::string& text : {std::string(), "<tool_call>" + call, std::string("Hello"), call + "Hello"})
    EXPECT_FALSE(a->accepts(text)) << text;
  auto list = automaton({.style = ToolStyle::mistral, .required = true});
  EXPECT_TRUE(list->accepts("[" + kOne + ", " + kTwo + "]"));
  EXPECT_FALSE(list->accepts("[]"));
}

TEST(CallConstraint, SeveralCallsOfLlamaAreSeparated) {
  const std::string one = R"({"name": "get", "parameters": {"a": 1}})",
                    two = R"({"name": "get_all", "parameters": {}})";
  for (bool required : {false, true}) {
    auto a = automaton({.style = ToolStyle::llama, .required = required});
    EXPECT_TRUE(a->accepts(one + "; " + two + "; " + one));
    EXPECT_FALSE(a->accepts(one + "; {\"name\": \"got\""));
    EXPECT_FALSE(a->accepts(one + "; "));
    EXPECT_FALSE(automaton({.style = ToolStyle::llama, .required = required, .one = true})->accepts(one + "; " + two));
  }
  EXPECT_EQ(calls_in(ToolStyle::llama, one + "; " + two).size(), 2u);
  EXPECT_FALSE(automaton({.style = ToolStyle::llama, .required = true})->accepts("Hello"));
}

// A response_format beside tools: calls, or text of that form, and nothing in front of them.
TEST(CallConstraint, CallsStandInThePlaceOfAnAnswerOfAGivenForm) {
  const auto either = [](ToolStyle style) {
    ToolsAsked asked;
    asked.functions = kTools;
    const char* schema = R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                             "required": ["name", "age"], "additionalProperties": false})";
    return call_constraint(asked, {.tools = style, .reasoning = true}, "",
                           schema_automaton(schema, "response_format", JsonSpace::one));
  };
  const std::string answer = R"({"name": "get", "age": 3})", call = "<tool_call>\n" + kOne + "\n</tool_call>",
                    llama = R"({"name": "get", "parameters": {"a": 1}})";
  for (auto& [style, calls] : {std::pair(ToolStyle::hermes, call + "\n" + call), std::pair(ToolStyle::llama, llama),
                               std::pair(ToolStyle::mistral, "[TOOL_CALLS][" + kOne + "]")}) {
    auto a = either(style);
    EXPECT_TRUE(a->accepts(answer));
    EXPECT_TRUE(a->accepts(calls)) << calls;
    EXPECT_TRUE(a->free(a->start())) << "the mark may be special";
    EXPECT_FALSE(a->free(a->after(a->start(), R"({"name": "get", "age")")));
    for (const std::string& text : {std::string(), std::string("Hello"), "I look. " + calls, answer + calls,
                                    "<think></think>" + answer, std::string(R"({"name": "get"})")})
      EXPECT_FALSE(a->accepts(text)) << text;
  }
}

// Special tokens may stand in free text, and begin calls.
TEST(CallConstraint, SpecialTokensAreAllowedWhereTextIsFree) {
  const std::vector<std::string> texts{"", "", "{", "[", "hello", "]", R"([{"name": "get", "arguments": {"a": 1}}])",
                                       ""};
  auto tree = std::make_shared<const TokenTree>(
      texts, std::vector<std::pair<std::int32_t, std::string>>{{0, "[TOOL_CALLS]"}, {1, "</s>"}});
  TokenConstraint c(automaton({.style = ToolStyle::mistral}), tree);
  EXPECT_EQ(c.allowed(c.start()), TokenSet{0b01111111});
  const auto called = c.after(c.after(c.start(), 4), 0);
  EXPECT_EQ(c.allowed(called), TokenSet{0b01001000});
  EXPECT_TRUE(c.may_end(c.after(called, 6)));
}

// What published templates of families that call tools say (../shared/data/chat-templates).
TEST(ToolStyleOf, PublishedTemplates) {
  const std::string folder = DML_SOURCE_DIR "/../shared/data/chat-templates/templates/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no ../shared/data";
  const std::pair<const char*, ToolStyle> known[] = {
      {"axolotl-qwen3", ToolStyle::hermes},
      {"axolotl-qwen_25", ToolStyle::hermes},
      {"axolotl-falcon_h1", ToolStyle::hermes},
      {"lc-NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", ToolStyle::hermes},
      {"axolotl-mistral_v2v3", ToolStyle::mistral},
      {"lc-meta-llama-Llama-3.2-3B-Instruct", ToolStyle::llama},
      {"axolotl-chatml", ToolStyle::none},
      {"axolotl-jamba", ToolStyle::none}};
  for (auto& [name, style] : known) {
    std::ifstream file(folder + name + ".jinja");
    EXPECT_EQ(tool_style({std::istreambuf_iterator<char>(file), {}}), style) << name;
  }
}

TEST(ToolStyleOf, BuiltInTemplates) {
  std::map<std::string, ToolStyle> known;
  for (const char* name : {"qwen_25", "qwen3", "qwen3_5", "exaone4", "falcon_h1"}) known[name] = ToolStyle::hermes;
  for (const char* name : {"mistral_v2v3", "mistral_v3_tekken"}) known[name] = ToolStyle::mistral;
  for (const char* name : {"llama4", "llama3_2_vision"}) known[name] = ToolStyle::llama;
  for (const ChatFormat& f : chat_formats()) EXPECT_EQ(tool_style(f.source), known[f.name]) << f.name;
  const std::string gemma = "{{ tools }}<|tool_call>call:f{}<tool_call|>",
                    command = R"(tools {"tool_name": 1, "parameters": 2})";
  EXPECT_EQ(tool_style(gemma + "<tool_call>"), ToolStyle::none);
  EXPECT_EQ(tool_style(command), ToolStyle::none);
}

TEST(Tools, ArgumentsAreAnObject) {
  auto functions = [](const Json& parameters) {
    Json function{{"name", "f"}};
    if (!parameters.is_discarded()) function["parameters"] = parameters;
    const Json body{{"tools", Json::array({Json{{"type", "function"}, {"function", function}}})}};
    Fields f(body);
    return read_tools(f, ToolStyle::hermes).functions[0]["parameters"];
  };
  const Json none{{"type", "object"}, {"additionalProperties", false}};
  for (const Json& parameters :
       {Json(Json::value_t::discarded), Json(nullptr), Json::object(), Json{{"type", "object"}}})
    EXPECT_EQ(functions(parameters), none) << parameters;
  const Json one{{"properties", {{"a", {{"type", "integer"}}}}}};
  EXPECT_EQ(functions(one), (Json{{"properties", one["properties"]}, {"type", "object"}}));
  const Json required{{"type", "object"}, {"required", {"city"}}};  // of a property that is not described
  EXPECT_EQ(functions(required), required);
  EXPECT_THROW(functions({{"type", "string"}}), ApiError);
  EXPECT_THROW(functions("x"), ApiError);
}

}  // namespace
}  // namespace dml
