// /v1/completions: the events of several choices, for engine events that the test chooses.
#include "serve/openai_answer.h"

#include <gtest/gtest.h>

#include "model/golden.h"
#include "serve/recorded_reply.h"

namespace dml {
namespace {

struct Streamed {
  std::string text, finish;
  std::vector<std::string> tokens;
  std::vector<std::int64_t> offsets;
  bool operator==(const Streamed&) const = default;
};

void add(Streamed& to, const Json& choice) {
  to.text += choice["text"].get<std::string>();
  for (const Json& token : choice["logprobs"]["tokens"]) to.tokens.push_back(token);
  for (const Json& offset : choice["logprobs"]["text_offset"]) to.offsets.push_back(offset);
  if (!choice["finish_reason"].is_null()) to.finish = choice["finish_reason"];
}

// The two choices of one prompt with echo and log-probabilities; the second one is read and written before the first.
std::vector<Streamed> choices_of(bool stream) {
  BaseModel base;
  base.spec.vocab = 1 << 16;
  base.spec.max_positions = 512;
  const AnswerFormat format(nullptr, {}, base, load_tokenizer(DML_SOURCE_DIR "/datasets/quickstart/tokenizer"), true);
  Metrics metrics{"model"};
  auto reply = std::make_shared<RecordedReply>();
  const std::vector<Token> prompt = format.text_ids("A cat", false), words = format.text_ids("and a dog", false);
  Asked asked;
  asked.continued = asked.echo = asked.logprobs = true;
  asked.stream = stream;
  asked.n = 2;
  asked.prompts = {prompt};
  asked.texts = {"A cat"};
  asked.context = 512;
  CompletionAnswer work(asked, format, reply, metrics);
  work.take_requests();
  EngineEvent read{.kind = EngineEvent::Kind::read};
  const EngineEvent end{.kind = EngineEvent::Kind::end, .reason = StopReason::length};
  work.on_event(1, read);
  for (std::size_t i = 1; i < words.size(); ++i) work.on_event(1, {.choice = {.token = words[i]}});
  work.on_event(1, end);
  for (std::size_t i = 1; i < prompt.size(); ++i) read.prompt.push_back({.token = prompt[i]});
  work.on_event(0, read);
  work.on_event(0, {.choice = {.token = words.back()}});
  work.on_event(0, end);
  std::vector<Streamed> out(2);
  const std::string& body = reply->body;
  const auto read_answer = [&](std::size_t begin) {
    const Json answer = parse_json(body.substr(begin, body.find("\n\n", begin) - begin), "answer");
    for (const Json& choice : answer["choices"]) add(out[choice["index"]], choice);
  };
  if (!stream) read_answer(0);
  for (std::size_t at = body.find("data: {"); at != body.npos; at = body.find("data: {", at + 1)) read_answer(at + 6);
  return out;
}

TEST(CompletionStreams, EveryChoiceEchoesTheLogProbabilitiesOfItsPrompt) {
  const std::vector<Streamed> whole = choices_of(false), streamed = choices_of(true);
  ASSERT_EQ(whole[1].text, "A cat and a dog");
  ASSERT_EQ(whole[1].finish, "length");
  ASSERT_GT(whole[1].tokens.size(), whole[0].tokens.size());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(streamed[i].text, whole[i].text) << i;
    EXPECT_EQ(streamed[i].tokens, whole[i].tokens) << i;
    EXPECT_EQ(streamed[i].offsets, whole[i].offsets) << i;
    EXPECT_EQ(streamed[i].finish, whole[i].finish) << i;
  }
}

}  // namespace
}  // namespace dml
