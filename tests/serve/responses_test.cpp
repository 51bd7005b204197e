// /v1/responses: the items of an answer, whole and as events, for tokens that the test chooses.
#include "serve/responses.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "model/golden.h"
#include "serve/recorded_reply.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::AllOf, testing::ElementsAre, testing::HasSubstr;

class Responses : public testing::Test {
 protected:
  Responses() {
    std::filesystem::copy_file(golden_path("tokenizer/spm_bpe.model"), folder_ / "tokenizer.model");
    BaseModel base;
    base.spec.vocab = 1 << 16;
    base.spec.max_positions = 512;
    format_ = std::make_unique<AnswerFormat>(nullptr, AnsweringModel{{}, {}, folder_.path()}, base,
                                             load_tokenizer(folder_.path()), true);
  }
  Asked asked(bool stream) const {
    Asked out;
    out.chat = true;
    out.prompts = {{1}};
    out.context = 512;
    out.stream = stream;
    out.reply.reasoning = out.reply.inside_reasoning = true;
    return out;
  }
  std::vector<Token> tokens_of(const std::string& text) const {
    std::vector<Token> ids = format_->text_ids(text, false);
    if (!ids.empty() && format_->tokenizer().bos == ids[0]) ids.erase(ids.begin());
    return ids;
  }
  // The answer to a request when the model says `text`.
  template <class Answer>
  std::string answer(const std::string& text, bool stream, bool cut) {
    auto reply = std::make_shared<RecordedReply>();
    Answer work(asked(stream), *format_, reply, metrics_);
    work.take_requests();
    for (Token token : tokens_of(text)) work.on_event(0, {.choice = {.token = token}});
    work.on_event(0, {.kind = EngineEvent::Kind::end, .reason = cut ? StopReason::length : StopReason::token});
    return reply->body;
  }
  Json whole(const std::string& text, bool cut = false) {
    return parse_json(answer<ResponseAnswer>(text, false, cut), "answer");
  }
  std::vector<Json> events(const std::string& text, bool cut = false) {
    const std::string body = answer<ResponseAnswer>(text, true, cut);
    std::vector<Json> out;
    for (std::size_t at = body.find("data: "); at != body.npos; at = body.find("\ndata: ", at + 1))
      out.push_back(parse_json(body.substr(body.find('{', at), body.find("\n\n", at) - body.find('{', at)), "event"));
    return out;
  }

  testing_tools::TemporaryFolder folder_;
  std::unique_ptr<AnswerFormat> format_;
  Metrics metrics_{"model"};
};

TEST_F(Responses, ReasoningIsAnItemBeforeTheMessage) {
  const std::string thought = "I think so";
  const Json r = whole(thought + "</think>Yes.");
  EXPECT_EQ(r["status"], "completed");
  ASSERT_EQ(r["output"].size(), 2u);
  const Json &reasoning = r["output"][0], &message = r["output"][1];
  EXPECT_EQ(reasoning["type"], "reasoning");
  EXPECT_TRUE(reasoning["id"].get<std::string>().starts_with("rs_"));
  EXPECT_EQ(reasoning["summary"], Json::array());
  EXPECT_EQ(reasoning["content"], Json::array({{{"type", "reasoning_text"}, {"text", thought}}}));
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["content"][0]["text"], "Yes.");
  const std::int64_t tokens = r["usage"]["output_tokens_details"]["reasoning_tokens"];
  EXPECT_GE(tokens, std::ssize(tokens_of(thought)));
  EXPECT_LT(tokens, r["usage"]["output_tokens"]);
  const Json chat = parse_json(answer<ChatAnswer>(thought + "</think>Yes.", false, false), "answer");
  EXPECT_EQ(chat["choices"][0]["message"]["reasoning_content"], thought);
  EXPECT_EQ(chat["usage"]["completion_tokens_details"]["reasoning_tokens"], tokens);
}

TEST_F(Responses, AnAnswerCutOffInItsReasoningHasNoMessage) {
  const Json r = whole("I think", true);
  EXPECT_EQ(r["status"], "incomplete");
  ASSERT_EQ(r["output"].size(), 1u);
  EXPECT_EQ(r["output"][0]["type"], "reasoning");
  EXPECT_EQ(r["output"][0]["status"], "incomplete");
  EXPECT_EQ(r["usage"]["output_tokens_details"]["reasoning_tokens"], r["usage"]["output_tokens"]);
}

TEST_F(Responses, EventsTellOfOneItemAfterTheOther) {
  std::vector<std::string> kinds;
  std::string reasoning, text;
  Json last;
  for (const Json& e : events("I think so</think>Yes.")) {
    const std::string kind = e["type"];
    if (kind == "response.reasoning_text.delta") reasoning += e["delta"].get<std::string>();
    if (kind == "response.output_text.delta") text += e["delta"].get<std::string>();
    if (e.contains("item_id")) {
      EXPECT_EQ(e["output_index"], e["item_id"].get<std::string>().starts_with("rs_") ? 0 : 1) << e;
    }
    if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
    last = e;
  }
  EXPECT_THAT(kinds,
              ElementsAre("response.created", "response.in_progress",  //
                          "response.output_item.added", "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.content_part.added", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.completed"));
  EXPECT_EQ(reasoning, "I think so");
  EXPECT_EQ(text, "Yes.");
  EXPECT_EQ(last["response"]["output"][0]["content"][0]["text"], reasoning);
  EXPECT_EQ(last["response"]["output"][1]["content"][0]["text"], text);
}

TEST_F(Responses, AnAnswerMayBeSentBackWithItsReasoning) {
  Json input = whole("I think so</think>Yes.")["output"];
  input.insert(input.begin(), Json{{"role", "user"}, {"content", "Well?"}});
  const Json messages = chat_of_response({{"input", input}})["messages"];
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1]["role"], "assistant");
  EXPECT_EQ(messages[1]["reasoning_content"], "I think so");
  EXPECT_EQ(messages[1]["content"][0]["text"], "Yes.");
}

TEST_F(Responses, RegularExpressionsAndGrammarsArePassedOn) {
  for (const Json& format : {Json{{"type", "regex"}, {"regex", "a+"}}, Json{{"type", "regex"}, {"pattern", "a+"}},
                             Json{{"type", "grammar"}, {"grammar", "root ::= \"a\""}}})
    EXPECT_EQ(chat_of_response({{"input", "Hi"}, {"text", {{"format", format}}}})["response_format"], format);
}

TEST_F(Responses, ErrorsNameTheFieldsOfTheirRequest) {
  const auto told = [](const char* message) {
    const ApiError e = of_response(ApiError::invalid("response_format", message));
    return e.param + " | " + e.message;
  };
  EXPECT_EQ(told("response_format: 'type' at #: 1"), "text.format | text.format: 'type' at #: 1");
  EXPECT_EQ(told("'response_format' is wrong"), "text.format | 'text.format' is wrong");
}

TEST_F(Responses, WhatIsNotSupportedIsNamed) {
  const auto error = [](const Json& more) {
    Json request = {{"input", "Hi"}};
    request.update(more);
    try {
      chat_of_response(request);
    } catch (const ApiError& e) {
      return e.param + ": " + e.message;
    }
    return std::string();
  };
  const auto item = [](const char* type) { return Json{{"input", {{{"type", type}, {"id", "msg_1"}}}}}; };
  EXPECT_THAT(error(item("item_reference")), AllOf(HasSubstr("input[0].type: "), HasSubstr("store: false")));
  EXPECT_THAT(error(item("function_call_output")), HasSubstr("/v1/chat/completions"));
  EXPECT_THAT(error({{"background", true}}), HasSubstr("background: "));
  EXPECT_THAT(error({{"include", {"message.output_text.logprobs"}}}), HasSubstr("include: "));
  EXPECT_EQ(error({{"background", false}, {"include", {"reasoning.encrypted_content"}}, {"store", true}}), "");
  EXPECT_EQ(whole("Yes.")["store"], false);
}

}  // namespace
}  // namespace dml
