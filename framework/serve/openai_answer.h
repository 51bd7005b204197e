// Answers in the formats of the OpenAI API, whole or as a stream of events, produced token by token on the engine's
// thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "assembly/answer_format.h"
#include "core/stop_text.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/openai_request.h"
#include "serve/reply_parser.h"
#include "serve/work.h"

namespace dml {

/// `prefix` followed by random letters and digits that cannot be guessed ("chatcmpl-…").
std::string fresh_id(const std::string& prefix);

/// The base class of text answers: the texts of the choices, stops, usage.
class TextAnswer : public Work {
 public:
  TextAnswer(Asked asked, const AnswerFormat& format, std::shared_ptr<HttpReply> reply, Metrics& metrics);

  std::vector<EngineRequest> take_requests() override;
  bool on_event(std::size_t i, const EngineEvent& event) override;
  bool gone() const override { return reply_->gone(); }
  void fail(const std::exception& why) override;
  void cut_off() override;

 protected:
  struct Choice {
    AnswerText text;
    StopText stop;
    std::string whole = {};                    // the answer so far
    std::vector<Sampler::Choice> tokens = {};  // the tokens of the answer
    std::vector<Sampler::Choice> prompt = {};  // with echo and logprobs
    std::size_t told = 0;                      // number of tokens whose log-probabilities were sent
    std::int64_t prompt_tokens = 0, cached = 0, offset = 0;
    std::string finish = {};  // "stop", "length" …
    bool begun = false, done = false;
    bool echoed = false;    // the log-probabilities of the prompt were sent
    bool waiting = false;   // a stream waits for them, as only the first choice of a prompt reports them
    std::string held = {};  // text of a stream that is not sent yet
    // For chats only.
    ReplyParser reply{{}};
    ReplyParser::Piece said = {};              // what the last text has added to the following
    std::string content = {}, reasoning = {};  // the answer so far
    std::vector<ToolCall> calls = {};
    std::int64_t reasoning_tokens = 0;
  };
  /// Sends new text of a streamed choice; `last`: nothing follows.
  virtual void tell(std::size_t i, const std::string& piece, bool last) = 0;
  virtual Json whole() = 0;
  virtual std::string prompt_text(std::size_t) const { return ""; }
  /// Ends a stream; end_with() ends it with an error.
  virtual void end_stream();
  virtual void end_with(const ApiError& e) { event(e.json()); }

  Json usage() const;
  Json envelope(const char* object) const;
  /// Adds system_fingerprint, choices and usage to an answer that is not streamed.
  void finish_whole(Json& all, Json choices) const;
  void event(const Json& data) { reply_->write("data: " + dump(data) + "\n\n"); }
  std::string token_text(Token token) const;
  static double clamped(float logprob) { return logprob > -9999.f ? logprob : -9999.0; }

  Asked asked_;
  const AnswerFormat& format_;
  std::shared_ptr<HttpReply> reply_;
  Metrics& metrics_;
  std::string id_;
  std::int64_t created_;
  std::vector<Choice> choices_;
  std::vector<std::string> stops_;

 private:
  void take_text(std::size_t i, const std::string& piece, bool last);
  void parse(Choice& c, const std::string& piece, bool last);
  void end_choice(std::size_t i, std::string reason);
  void finish_if_done();
  void give_up(const ApiError& why);
  bool answered_ = false;
};

/// /v1/completions.
class CompletionAnswer : public TextAnswer {
 public:
  using TextAnswer::TextAnswer;

 protected:
  void tell(std::size_t i, const std::string& piece, bool last) override;
  Json whole() override;
  std::string prompt_text(std::size_t i) const override;

 private:
  bool lacks_prompt(std::size_t i) const;
  Json choice(std::size_t i, const std::string& text, bool last);
  Json logprobs(std::size_t i, std::size_t from);
};

/// /v1/chat/completions.
class ChatAnswer : public TextAnswer {
 public:
  using TextAnswer::TextAnswer;

 protected:
  void tell(std::size_t i, const std::string& piece, bool last) override;
  Json whole() override;

 private:
  Json call_json(const ToolCall& call) const;
  Json logprobs(Choice& c);
};

}  // namespace dml
