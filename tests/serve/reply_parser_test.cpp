// Replies of chat models parsed as a whole and split at every byte, which must give the same.
#include "serve/reply_parser.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

struct Read {
  std::string content, reasoning;
  std::vector<std::string> calls;
  bool operator==(const Read&) const = default;
};

void add(Read& to, const ReplyParser::Piece& piece) {
  to.content += piece.content;
  to.reasoning += piece.reasoning;
  for (const ToolCall& call : piece.calls) to.calls.push_back(call.name + call.arguments);
}

Read read(const ReplyParser::Format& format, const std::string& text, bool cut_off = false) {
  Read whole;
  ReplyParser parser(format);
  add(whole, parser.push(text));
  add(whole, parser.finish(cut_off));
  for (std::size_t step : {std::size_t{1}, std::size_t{3}}) {
    Read cut;
    ReplyParser slow(format);
    for (std::size_t i = 0; i < text.size(); i += step) add(cut, slow.push(text.substr(i, step)));
    add(cut, slow.finish(cut_off));
    EXPECT_EQ(cut.content, whole.content) << text;
    EXPECT_EQ(cut.reasoning, whole.reasoning) << text;
    EXPECT_EQ(cut.calls, whole.calls) << text;
  }
  return whole;
}

constexpr ReplyParser::Format kHermes{ToolStyle::hermes, true}, kMistral{ToolStyle::mistral}, kLlama{ToolStyle::llama};

TEST(ReplyParser, PlainTextIsContent) {
  EXPECT_EQ(read({}, " Hello <think> [TOOL_CALLS] "), (Read{" Hello <think> [TOOL_CALLS] ", "", {}}));
  EXPECT_EQ(read(kHermes, "a < b <tool"), (Read{"a < b <tool", "", {}}));
  EXPECT_EQ(read(kHermes, "two\n\nparagraphs"), (Read{"two\n\nparagraphs", "", {}}));
}

TEST(ReplyParser, ReasoningComesFirst) {
  EXPECT_EQ(read(kHermes, "<think>\nwell\nso\n</think>\n\nYes."), (Read{"Yes.", "well\nso", {}}));
  EXPECT_EQ(read(kHermes, "<think>cut"), (Read{"", "cut", {}}));
  ReplyParser::Format inside = kHermes;
  inside.inside_reasoning = true;
  EXPECT_EQ(read(inside, "hm</think> Yes."), (Read{"Yes.", "hm", {}}));
  EXPECT_EQ(read(kHermes, "No <think>x</think>"), (Read{"No <think>x</think>", "", {}}));
}

TEST(ReplyParser, ReadsCallsOfEveryFamily) {
  const std::string call = R"({"name": "f", "arguments": {"a": "}\""}})";
  EXPECT_EQ(read(kHermes, "Let me see.\n<tool_call>\n" + call + "\n</tool_call>\n<tool_call>" + call + "</tool_call>"),
            (Read{"Let me see.", "", {R"(f{"a":"}\""})", R"(f{"a":"}\""})"}}));
  EXPECT_EQ(read(kMistral, "[TOOL_CALLS][" + call + ", " + call + "]").calls.size(), 2u);
  EXPECT_EQ(read(kMistral, R"([TOOL_CALLS]f[ARGS]{"a":1})"), (Read{"", "", {R"(f{"a":1})"}}));
  EXPECT_EQ(read(kLlama, R"(<|python_tag|>{"name": "f", "parameters": {"a": 1}}; {"name":"g","parameters":{}})"),
            (Read{"", "", {R"(f{"a":1})", "g{}"}}));
  EXPECT_EQ(read(kLlama, R"({"name": "f", "parameters": {}})"), (Read{"", "", {"f{}"}}));
}

TEST(ReplyParser, AnArgumentMayHoldTheMarkThatEndsACall) {
  const std::string call = R"({"name": "f", "arguments": {"a": "\"</tool_call>"}})",
                    said = R"(f{"a":"\"</tool_call>"})";
  EXPECT_EQ(read(kHermes, "<tool_call>\n" + call + "\n</tool_call>\n<tool_call>" + call + "</tool_call> done"),
            (Read{"done", "", {said, said}}));
  EXPECT_EQ(read(kHermes, "<tool_call>" + call), (Read{"", "", {said}}));
  EXPECT_EQ(read(kHermes, R"(<tool_call>{"a": 1</tool_call>say "it")").content,
            R"(<tool_call>{"a": 1</tool_call>say "it")");
  EXPECT_EQ(read(kHermes, R"(<tool_call>"</tool_call>x)").content, R"(<tool_call>"</tool_call>x)");
}

TEST(ReplyParser, TextThatIsNotACallIsContent) {
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\":").content, "<tool_call>{\"name\":");
  EXPECT_EQ(read(kHermes, "<tool_call>nonsense</tool_call>").content, "<tool_call>nonsense</tool_call>");
  EXPECT_EQ(read(kLlama, R"({"answer": 42})").content, R"({"answer": 42})");
  EXPECT_EQ(read(kMistral, "[TOOL_CALLS][{").content, "[TOOL_CALLS][{");
}

TEST(ReplyParser, ArgumentsMayRepeatAKey) {
  EXPECT_EQ(
      read(kHermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": 2, \"a\": 3}}\n</tool_call>"),
      (Read{"", "", {R"(f{"a":3,"b":2})"}}));
}

TEST(ReplyParser, TextOfAGivenFormHasNoCalls) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  const ReplyParser::Format either{.tools = ToolStyle::hermes, .either = true};
  EXPECT_EQ(read(either, call + "\n" + call), (Read{"", "", {"f{}", "f{}"}}));
  EXPECT_EQ(read(either, "{\"a\": \"" + call + "\"}"), (Read{"{\"a\": \"" + call + "\"}", "", {}}));
}

TEST(ReplyParser, AReplyMayStartInsideACall) {
  ReplyParser::Format inside{ToolStyle::hermes};
  inside.inside_call = true;
  EXPECT_EQ(read(inside, R"({"name": "f", "arguments": {}})"), (Read{"", "", {"f{}"}}));
  EXPECT_EQ(read(inside, R"({"name": "f")").content, R"({"name": "f")");
  const Read cut = read(inside, "\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\"");
  EXPECT_EQ(cut, (Read{"<tool_call>\n{\"name\": \"g\"", "", {"f{}"}})) << "a second call that is cut short";
}

TEST(ReplyParser, ACallMayLackItsClosingTag) {
  const std::string call = R"({"name": "f", "arguments": {}})";
  for (const bool cut : {false, true})
    for (const char* end : {"", "\n", "</", "\n</tool_cal"})
      EXPECT_EQ(read(kHermes, "<tool_call>\n" + call + end, cut), (Read{"", "", {"f{}"}})) << end;
  EXPECT_EQ(read(kMistral, "[TOOL_CALLS][" + call, true), (Read{"", "", {"f{}"}}));
}

// The markup of a call that was cut off is not content; calls before it are kept.
TEST(ReplyParser, ACallThatIsCutOffIsLeftOut) {
  const std::string call = R"({"name": "f", "arguments": {}})", begun = R"({"name": "g", "argum)";
  EXPECT_EQ(read(kHermes, "Let me see.\n<tool_call>\n" + begun, true), (Read{"Let me see.", "", {}}));
  EXPECT_EQ(read(kHermes, "Let me see.\n<tool_c", true), (Read{"Let me see.", "", {}}));
  EXPECT_EQ(read(kHermes, "<tool_call>" + call + "</tool_call>\n<tool_call>" + begun, true), (Read{"", "", {"f{}"}}));
  EXPECT_EQ(read(kHermes, "<tool_call>" + call + "</tool_call>\n<to", true), (Read{"", "", {"f{}"}}));
  EXPECT_EQ(read(kMistral, "[TOOL_CALLS][" + call + ", " + begun, true), (Read{"", "", {"f{}"}}));
  EXPECT_EQ(read(kMistral, R"([TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS]{"a)", true), (Read{"", "", {"f{}"}}));
  EXPECT_EQ(read(kMistral, "Well [TOOL_C", true), (Read{"Well", "", {}}));
  EXPECT_EQ(read(kLlama, call + "; " + begun, true), (Read{"", "", {"f{}"}}));
  EXPECT_EQ(read(kLlama, begun, true), (Read{}));
  EXPECT_EQ(read(kLlama, "<|python_tag|>{", true), (Read{}));
  ReplyParser::Format inside{ToolStyle::hermes};
  inside.inside_call = true;
  EXPECT_EQ(read(inside, begun, true), (Read{}));
}

TEST(ReplyParser, OtherTextThatIsCutOffIsKept) {
  EXPECT_EQ(read(kHermes, "if a <", true).content, "if a <");
  EXPECT_EQ(read({}, "a <tool_call>{", true).content, "a <tool_call>{");
  EXPECT_EQ(read(kLlama, R"({"answer": 4)", true).content, R"({"answer": 4)");
  EXPECT_EQ(read(kHermes, "<think>well", true).reasoning, "well");
}

TEST(ReplyParser, KnowsWhetherTheModelIsThinking) {
  ReplyParser parser(kHermes);
  EXPECT_FALSE(parser.thinking());
  parser.push("<think>hm");
  EXPECT_TRUE(parser.thinking());
  parser.push("</think>Yes");
  EXPECT_FALSE(parser.thinking());
}

}  // namespace
}  // namespace dml
