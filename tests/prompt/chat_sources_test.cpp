// Conversations out of columns and out of ChatGPT's export: the text a template makes of them, and what of it is
// trained.
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "prompt/strategy.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

// What is trained on stands in [..].
std::string marked(const Rendered& rendered) {
  std::string out;
  bool trained = false;
  for (auto& segment : rendered.segments)
    for (const Piece& piece : segment.pieces()) {
      if (piece.trained != trained && !piece.text.empty()) {
        out += piece.trained ? "[" : "]";
        trained = piece.trained;
      }
      out += piece.text;
    }
  return out + (trained ? "]" : "");
}

std::unique_ptr<PromptStrategy> strategy_of(const DatasetEntry& entry) {
  PromptContext context;
  context.dataset = &entry;
  context.chat_template = "chatml";
  context.eos_token = "<|im_end|>";
  return make_prompt_strategy(context);
}

std::string rendered(const DatasetEntry& entry, const char* row) {
  return marked(strategy_of(entry)->render(parse_json(row, "row")).at(0));
}

DatasetEntry columns(std::map<std::string, std::vector<std::string>> of) {
  DatasetEntry entry;
  entry.type.name = "chat_template";
  entry.message_columns = std::move(of);
  return entry;
}

TEST(MessageColumns, AreTheTurnsOfAConversation) {
  EXPECT_EQ(rendered(columns({{"user", {"Question"}}, {"assistant", {"Answer"}}}),
                     R"({"Question": "Why?", "Answer": "Because.", "Id": "7"})"),
            "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n[Because.<|im_end|>]\n");
}

TEST(MessageColumns, SeveralOfARoleAreJoinedAndEmptyOnesLeftOut) {
  DatasetEntry entry = columns({{"user", {"instruction", "input"}}, {"assistant", {"output"}}, {"system", {"s"}}});
  EXPECT_EQ(rendered(entry, R"({"instruction": "Add.", "input": "1, 2", "output": 3, "s": "Be brief."})"),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nAdd.\n\n1, 2<|im_end|>\n"
            "<|im_start|>assistant\n[3<|im_end|>]\n");
  EXPECT_EQ(rendered(entry, R"({"instruction": "Sing.", "input": " ", "output": "La.", "s": null})"),
            "<|im_start|>user\nSing.<|im_end|>\n<|im_start|>assistant\n[La.<|im_end|>]\n");
}

TEST(MessageColumns, TheTextOfASingleColumnIsKept) {
  DatasetEntry entry = columns({{"user", {"q", "x"}}, {"assistant", {"a"}}});
  EXPECT_EQ(rendered(entry, R"({"q": " f: ", "x": " 1\n", "a": "    return x\n"})"),
            "<|im_start|>user\nf:\n\n1<|im_end|>\n<|im_start|>assistant\n[    return x\n<|im_end|>]\n");
}

TEST(MessageColumns, ARowWithoutAnAnswerHasNothingToTrainOn) {
  DatasetEntry entry = columns({{"user", {"q"}}, {"assistant", {"a"}}});
  Rendered r = strategy_of(entry)->render(parse_json(R"({"q": "Why?", "a": ""})", "row")).at(0);
  EXPECT_EQ(marked(r).find('['), std::string::npos);
  EXPECT_NE(r.untrained_reason, "");
}

TEST(MessageColumns, APromptEndsBeforeTheAnswer) {
  DatasetEntry entry = columns({{"user", {"q"}}, {"assistant", {"a"}}});
  const char* expected = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(marked(strategy_of(entry)->prompt(parse_json(R"({"q": "Why?"})", "row"))), expected);
  EXPECT_EQ(marked(strategy_of(entry)->prompt(
                parse_json(R"({"q": "x", "messages": [{"role": "user", "content": "Why?"}]})", "row"))),
            expected);
}

TEST(MessageColumns, MistakesAreNamed) {
  auto says = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(says([] {
              strategy_of(columns({{"user", {"q"}}}));
            }),
            "message_columns: the column of 'assistant' is missing");
  EXPECT_NE(says([] {
              strategy_of(columns({{"user", {"q"}}, {"assistant", {"a"}}, {"bot", {"b"}}}));
            }).find("unknown role 'bot'"),
            std::string::npos);
  EXPECT_NE(says([] {
              rendered(columns({{"user", {"q"}}, {"assistant", {"answer"}}}), R"({"q": "x", "a": "y"})");
            }).find("answer"),
            std::string::npos);
}

DatasetEntry chatgpt() {
  DatasetEntry entry;
  entry.type.name = "chat_template.chatgpt";
  return entry;
}

// A question that was asked twice: two branches, of which the second was last shown; a tool call between two answers.
const char* const kExport = R"json({
  "title": "Cats", "current_node": "f",
  "mapping": {
    "root": {"id": "root", "message": null, "parent": null, "children": ["s"]},
    "s": {"id": "s", "parent": "root", "children": ["a", "b"], "message": {"author": {"role": "system"},
          "content": {"content_type": "text", "parts": [""]}, "recipient": "all",
          "metadata": {"is_visually_hidden_from_conversation": true}}},
    "a": {"id": "a", "parent": "s", "children": [], "message": {"author": {"role": "user"},
          "content": {"content_type": "text", "parts": ["An older question"]}, "recipient": "all"}},
    "b": {"id": "b", "parent": "s", "children": ["c"], "message": {"author": {"role": "user"},
          "content": {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "Is this a cat?"]},
          "recipient": "all"}},
    "c": {"id": "c", "parent": "b", "children": ["d"], "message": {"author": {"role": "assistant"},
          "content": {"content_type": "text", "parts": ["Let me look."]}, "recipient": "all"}},
    "d": {"id": "d", "parent": "c", "children": ["e"], "message": {"author": {"role": "assistant"},
          "content": {"content_type": "code", "text": "look()"}, "recipient": "python"}},
    "e": {"id": "e", "parent": "d", "children": ["f"], "message": {"author": {"role": "assistant"},
          "content": {"content_type": "text", "parts": ["It is a cat."]}, "recipient": "all"}},
    "f": {"id": "f", "parent": "e", "children": [], "message": {"author": {"role": "user"},
          "content": {"content_type": "text", "parts": ["Thanks"]}, "recipient": "all"}}
  }})json";

TEST(ChatGptExport, TheBranchThatWasShownIsTheConversation) {
  EXPECT_EQ(
      rendered(chatgpt(), kExport),
      "<|im_start|>user\nIs this a cat?<|im_end|>\n<|im_start|>assistant\n[Let me look.\n\nIt is a cat.<|im_end|>]\n");
}

TEST(ChatGptExport, WithoutACurrentNodeTheNewestBranchCounts) {
  Json row = parse_json(kExport, "row");
  row.erase("current_node");
  EXPECT_EQ(marked(strategy_of(chatgpt())->render(row).at(0)), rendered(chatgpt(), kExport));
}

TEST(ChatGptExport, AConversationWithoutAnAnswerHasNothingToTrainOn) {
  EXPECT_NE(strategy_of(chatgpt())
                ->render(parse_json(R"({"mapping": {"r": {"parent": null, "children": [], "message": null}}})", "row"))
                .at(0)
                .untrained_reason,
            "");
}

TEST(ChatGptExport, DamagedExportsAreErrors) {
  for (const char* row :
       {R"({"messages": []})", R"({"mapping": 3})", R"({"current_node": "x", "mapping": {}})",
        R"({"current_node": "x", "mapping": {"x": {"parent": "y"}, "y": {"parent": "x"}}})",
        R"({"current_node": "x", "mapping": {"x": {"parent": "gone"}}})",
        R"({"current_node": "x", "mapping": {"x": 5}})", R"({"current_node": 5, "mapping": {"x": {}}})"})
    EXPECT_THROW(strategy_of(chatgpt())->render(parse_json(row, "row")), UserError) << row;
}

DatasetEntry prompt_completion() {
  DatasetEntry entry;
  entry.type.name = "chat_template.prompt_completion";
  return entry;
}

TEST(PromptCompletion, OnlyTheCompletionIsTrained) {
  const std::string begin =
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n";
  const char* prompt =
      R"("prompt": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
                    {"role": "user", "content": "Why?"}])";
  EXPECT_EQ(
      rendered(prompt_completion(),
               fmt::format(R"({{{}, "completion": [{{"role": "assistant", "content": "So."}}]}})", prompt).c_str()),
      begin + "<|im_start|>assistant\n[So.<|im_end|>]\n");
  EXPECT_EQ(rendered(prompt_completion(), fmt::format(R"({{{}, "completion": "So."}})", prompt).c_str()),
            begin + "<|im_start|>assistant\n[So.<|im_end|>]\n");
  const Rendered asked = strategy_of(prompt_completion())->prompt(parse_json(fmt::format("{{{}}}", prompt), "row"));
  EXPECT_EQ(marked(asked), begin + "<|im_start|>assistant\n");
}

TEST(PromptCompletion, ARowWithoutOneOfThemIsAnError) {
  for (const char* row : {R"({"prompt": "q"})", R"({"completion": "a"})", R"({"prompt": [], "completion": "a"})"})
    EXPECT_THROW(rendered(prompt_completion(), row), UserError) << row;
}

}  // namespace
}  // namespace dml
