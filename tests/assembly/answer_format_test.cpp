// Questions and conversations as prompts: the place where the model continues a message, templates that need contents,
// formats that are no conversations.
#include "assembly/answer_format.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "model/golden.h"

namespace dml {
namespace {

AnswerFormat format_of(const Recipe& recipe) {
  BaseModel base;
  base.spec.vocab = 1 << 16;
  base.spec.max_positions = 512;
  return AnswerFormat(&recipe, {}, base, load_tokenizer(DML_SOURCE_DIR "/datasets/quickstart/tokenizer"), false);
}

AnswerFormat format_with(const std::string& chat_template) {
  Recipe recipe;
  recipe.templates.chat_template = chat_template;
  return format_of(recipe);
}

AnswerFormat format_for(const std::string& type, RowKind rows) {
  Recipe recipe;
  recipe.data.rows = rows;
  recipe.data.datasets.resize(1);
  recipe.data.datasets[0].type.name = type;
  return format_of(recipe);
}

std::string continued(const std::string& chat_template, const Json& last) {
  const Json row = {{"messages", {{{"role", "user"}, {"content", "hi"}}, last}}};
  return format_with(chat_template).chat(row, {.answer = false, .continue_final_message = true}).text();
}

Json assistant(const Json& content) { return {{"role", "assistant"}, {"content", content}}; }

TEST(AnswerFormat, ContinuesTheLastMessageAtItsEnd) {
  const std::string begin = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  for (const char* said : {"one two", "<", "e", "end", "im_end|>", "<|im_end|>", "hi", "two lines\n\n"})
    EXPECT_EQ(continued("chatml", assistant(said)), begin + said);
  EXPECT_EQ(continued("llama2", assistant(" e ")), "<s>[INST] hi [/INST] e") << "a template that trims";
  EXPECT_THROW(continued("chatml", assistant("")), UserError);
}

// Which parts of a continued message are markup: only markup becomes special tokens.
TEST(AnswerFormat, TheMarksOfReasoningInAContinuedMessageAreTheTemplates) {
  const auto pieces = [](const std::string& said) {
    const Json row = {{"messages", {{{"role", "user"}, {"content", "<think>hi"}}, assistant(said)}}};
    const Rendered text = format_with("chatml").chat(row, {.answer = false, .continue_final_message = true});
    std::string out;
    for (const Piece& piece : text.segments.at(0).pieces())
      out += piece.markup ? fmt::format("[{}]", piece.text) : std::string(piece.text);
    return out.substr(out.rfind("assistant\n]") + 11);
  };
  EXPECT_EQ(pieces("<think>\nTwo"), "[<think>]\nTwo");
  EXPECT_EQ(pieces("\n<think>a</think>b</think>"), "\n[<think>]a[</think>]b</think>");
  EXPECT_EQ(pieces("<think>"), "[<think>]");
  EXPECT_EQ(pieces("The tag <think>"), "The tag <think>");
  EXPECT_EQ(pieces("a</think>b"), "a</think>b");
}

TEST(AnswerFormat, ContinuesTextParts) {
  const Json part = {{"type", "text"}, {"text", "one "}}, other = {{"type", "text"}, {"text", "two"}};
  EXPECT_EQ(continued("chatml", assistant(Json::array({part, other}))), continued("chatml", assistant("one two")));
}

TEST(AnswerFormat, DoesNotContinueWhatTheTemplateDoesNotShow) {
  Json calls = assistant("said");
  calls["tool_calls"] = {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", Json::object()}}}}};
  EXPECT_THROW(continued("qwen_25", calls), UserError) << "a call stands behind the content";
}

TEST(AnswerFormat, RendersCallsWithoutContent) {
  const Json call = {{"type", "function"}, {"function", {{"name", "f"}, {"arguments", Json::object()}}}};
  for (const char* name : {"falcon_h1", "qwen_25", "mistral_v2v3"}) {
    const AnswerFormat format = format_with(name);
    const auto text = [&](const Json& content) {
      Json message = {{"role", "assistant"}, {"content", content}, {"tool_calls", {call}}};
      if (std::string_view(name).starts_with("mistral")) message["tool_calls"][0]["id"] = "abcdefghi";
      return format.chat({{"messages", {{{"role", "user"}, {"content", "hi"}}, message}}}, {.answer = false}).text();
    };
    EXPECT_EQ(text(nullptr), text("")) << name;
  }
  const Json wrong = {{"messages", {{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}}}}};
  EXPECT_THROW(format_with("llama2").chat(wrong, {}), UserError) << "the template asks for a user first";
}

TEST(AnswerFormat, AsksWithoutTheAnswerThatEndsAConversation) {
  const AnswerFormat format = format_for("alpaca", RowKind::text);
  Json row = {{"messages", Json::array({Json{{"role", "user"}, {"content", "hi"}}})}};
  const std::vector<Token> asked = format.prompt_ids(row);
  row["messages"].push_back(assistant("yes"));
  EXPECT_EQ(format.prompt_ids(row), asked);
  row["messages"].push_back(Json{{"role", "user"}, {"content", "and?"}});
  EXPECT_GT(format.prompt_ids(row).size(), asked.size());
}

TEST(AnswerFormat, AsksAQuestionWhateverTheColumnOfPrompts) {
  const Json question = {{"prompt", "hi"}};
  const std::vector<Token> want = format_for("chatml.prompt_pairs", RowKind::pairs).prompt_ids(question);
  EXPECT_EQ(format_for("chatml.icr", RowKind::pairs).prompt_ids(question), want);
  EXPECT_EQ(format_for("chatml.argilla_chat", RowKind::pairs).prompt_ids(question), want);
  EXPECT_EQ(format_for("chatml.argilla_chat", RowKind::labeled).prompt_ids(question), want);
  EXPECT_EQ(format_for("chatml.icr", RowKind::pairs).prompt_ids({{"prompt", "no"}, {"input", "hi"}}), want);
  try {
    format_for("creative_acr.load_revise", RowKind::text).prompt_ids(question);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "this format needs 'answer' beside the prompt");
  }
}

}  // namespace
}  // namespace dml
