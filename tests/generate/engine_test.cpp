// The engine: an answer alone, in a batch, and after cache hits, bit for bit; canceling, fairness, memory.
#include "generate/engine.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "constraint/automaton.h"
#include "core/error.h"
#include "generate/golden_logits.h"

namespace dml {
namespace {

using Tokens = std::vector<Token>;

// The events of a request.
struct Got {
  Tokens tokens;
  std::vector<float> logprobs;
  std::vector<Sampler::Choice> prompt;
  std::vector<float> embedding;
  std::int64_t cached = -1;
  bool ended = false;
  StopReason reason = StopReason::length;
  std::vector<int> steps;  // in which its tokens came
};

class EngineFamilies : public testing::TestWithParam<std::string> {
 protected:
  GoldenLogits golden{GetParam()};
  CausalLm& model = *golden.model;

  EngineOptions options(std::size_t slots = 16) const {
    EngineOptions o;
    o.slots = slots;
    o.context = 96;
    o.cache_tokens = static_cast<std::int64_t>(slots) * o.context;
    o.reports = 8;
    return o;
  }
  // Prompts of many lengths, some of which begin alike.
  Tokens prompt(unsigned seed, std::size_t size, std::size_t shared = 0) const {
    std::mt19937 draw(seed), common(77);
    Tokens out;
    for (std::size_t i = 0; i < size; ++i)
      out.push_back(static_cast<Token>((i < shared ? common : draw)() % static_cast<unsigned>(model.spec.vocab)));
    return out;
  }
  EngineRequest request(unsigned i) const {
    EngineRequest r;
    r.prompt = prompt(i, 1 + i * 7 % 60, i % 3 == 0 ? 33 : 0);
    r.max_new_tokens = 3 + i % 9;
    r.sampling.greedy = i % 2 == 0;
    r.sampling.temperature = 1.5;
    r.sampling.seed = i;
    return r;
  }
  static void run(Engine& engine, std::map<RequestId, Got>& got, int& step) {
    for (const EngineEvent& e : engine.step()) {
      Got& g = got[e.id];
      if (e.kind == EngineEvent::Kind::read) {
        g.cached = e.cached;
        g.prompt = e.prompt;
      } else if (e.kind == EngineEvent::Kind::token) {
        g.tokens.push_back(e.choice.token);
        g.logprobs.push_back(e.choice.logprob);
        g.steps.push_back(step);
      } else {
        g.ended = true;
        g.reason = e.reason;
        g.embedding = e.embedding;
      }
    }
    ++step;
  }
  Got alone(EngineRequest r, EngineOptions o) {
    o.fair = false;
    Engine engine({&model}, o);
    const RequestId id = engine.submit(std::move(r));
    std::map<RequestId, Got> got;
    for (int step = 0; engine.busy();) run(engine, got, step);
    return got[id];
  }
};

// Byte for byte: tokens and log-probabilities.
void expect_same(const Got& a, const Got& b, unsigned i) {
  EXPECT_EQ(a.tokens, b.tokens) << i;
  EXPECT_EQ(a.logprobs, b.logprobs) << i;
  EXPECT_EQ(a.reason, b.reason) << i;
}

TEST_P(EngineFamilies, AnAnswerDependsNeitherOnOtherRequestsNorOnTheCacheNorOnPromptChunks) {
  constexpr unsigned kRequests = 40;
  std::vector<Got> want;
  for (unsigned i = 0; i < kRequests; ++i) want.push_back(alone(request(i), options(1)));
  for (std::int64_t reading : {5, 16, 512}) {
    EngineOptions o = options(reading == 16 ? 16 : 5);
    o.reading = reading;
    Engine engine({&model}, o);
    for (int round = 0; round < 2; ++round) {  // the second one finds prompts in the cache
      std::map<RequestId, Got> got;
      std::map<RequestId, unsigned> number;
      int step = 0;
      for (unsigned i = 0; i < kRequests; ++i) {  // they come while others are under way
        number[engine.submit(request(i))] = i;
        if (i % 4 == 0) run(engine, got, step);
      }
      while (engine.busy()) run(engine, got, step);
      std::int64_t cached = 0;
      for (auto& [id, g] : got) {
        expect_same(g, want[number[id]], number[id]);
        cached += g.cached;
      }
      if (round > 0) {
        EXPECT_GT(cached, 0);
      }
    }
  }
}

TEST_P(EngineFamilies, TakesNoMoreWorkingMemoryThanIsMeasured) {
  const EngineOptions o = options(6);
  const std::size_t measured = Engine::measure(model, o).working;
  model.reserve(measured);
  Engine engine({&model}, o);
  EXPECT_EQ(model.reserved(), measured);
  for (unsigned i = 0; i < 20; ++i) engine.submit(request(i));
  while (engine.busy()) engine.step();  // an arena that is too small throws
}

INSTANTIATE_TEST_SUITE_P(Golden, EngineFamilies,
                         testing::Values("llama_tiny", "mistral", "gemma2", "qwen3", "stablelm_parallel"),
                         [](auto& family) { return family.param; });

class OneEngine : public EngineFamilies {};
INSTANTIATE_TEST_SUITE_P(Golden, OneEngine, testing::Values("llama_tiny"), [](auto& family) { return family.param; });

TEST_P(OneEngine, SharesPagesOfEqualBeginningsAndOnlyThose) {
  Engine engine({&model}, options());
  std::map<RequestId, Got> got;
  int step = 0;
  auto ask = [&](Tokens tokens) {
    EngineRequest r;
    r.prompt = std::move(tokens);
    r.max_new_tokens = 2;
    const RequestId id = engine.submit(r);
    while (engine.busy()) run(engine, got, step);
    return got[id].cached;
  };
  EXPECT_EQ(ask(prompt(1, 50, 40)), 0);
  EXPECT_EQ(ask(prompt(1, 50, 40)), 48);  // whole pages, and at least one token is read
  EXPECT_EQ(ask(prompt(2, 50, 40)), 32);
  EXPECT_EQ(ask(prompt(3, 48, 48)), 32);
  EXPECT_EQ(ask(prompt(4, 50)), 0);
}

TEST_P(OneEngine, SamplesOfOnePromptReadItOnce) {
  Engine engine({&model}, options());
  std::map<RequestId, Got> got;
  int step = 0;
  for (std::uint64_t n = 0; n < 4; ++n) {
    EngineRequest r;
    r.prompt = prompt(9, 60);
    r.max_new_tokens = 4;
    r.number = n;
    r.sampling.temperature = 2;
    engine.submit(r);
  }
  while (engine.busy()) run(engine, got, step);
  std::set<Tokens> texts;
  std::int64_t cached = 0;
  for (auto& [id, g] : got) {
    cached += g.cached;
    texts.insert(g.tokens);
  }
  EXPECT_EQ(cached, 3 * 48);
  EXPECT_GT(texts.size(), 1u);
}

TEST_P(OneEngine, ALongPromptDoesNotStopTheOthers) {
  EngineOptions o = options(4);
  o.reading = 8;
  Engine engine({&model}, o);
  std::map<RequestId, Got> got;
  int step = 0;
  EngineRequest fast = request(1);
  fast.max_new_tokens = 12;
  const RequestId first = engine.submit(fast);
  run(engine, got, step);
  EngineRequest slow = request(2);
  slow.prompt = prompt(5, 80);
  engine.submit(slow);
  while (engine.busy()) run(engine, got, step);
  const auto& steps = got[first].steps;
  ASSERT_EQ(steps.size(), 12u);
  for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_EQ(steps[i], steps[i - 1] + 1);
}

TEST_P(OneEngine, ACanceledRequestReleasesItsSlotAndMemory) {
  Engine engine({&model}, options(2));
  std::map<RequestId, Got> got;
  int step = 0;
  std::vector<RequestId> ids;
  for (unsigned i = 0; i < 6; ++i) ids.push_back(engine.submit(request(i)));
  run(engine, got, step);
  for (std::size_t i = 0; i < 5; ++i) engine.cancel(ids[i]);
  got.clear();
  while (engine.busy()) run(engine, got, step);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[ids[5]].ended);
  expect_same(got[ids[5]], alone(request(5), options(1)), 5);
  EXPECT_EQ(engine.cache_usage(), 0);
}

TEST_P(OneEngine, RejectsRequestsThatCanNeverFit) {
  Engine engine({&model}, options(2));
  EngineRequest r = request(1);
  r.prompt = prompt(1, 90);
  r.max_new_tokens = 7;
  EXPECT_THROW(engine.submit(r), UserError);
  r.max_new_tokens = 6;
  EXPECT_NO_THROW(engine.submit(r));
}

TEST_P(OneEngine, ReportsThePromptsLogprobs) {
  EngineRequest r;
  r.prompt = prompt(3, 30);
  r.max_new_tokens = 1;
  r.report_prompt = true;
  r.sampling.greedy = true;
  r.sampling.top_logprobs = 1;
  const Got got = alone(r, options(2));
  ASSERT_EQ(got.prompt.size(), 29u);
  for (std::size_t t = 0; t < got.prompt.size(); ++t) {
    EngineRequest beginning = r;  // what the model says after the first t + 1 tokens
    beginning.prompt.resize(t + 1);
    beginning.report_prompt = false;
    beginning.sampling.bias = {{r.prompt[t + 1], 1e9f}};
    const Got one = alone(beginning, options(1));
    EXPECT_EQ(got.prompt[t].token, r.prompt[t + 1]);
    EXPECT_EQ(one.tokens[0], r.prompt[t + 1]);
    EXPECT_EQ(one.logprobs[0], got.prompt[t].logprob) << t;
    EXPECT_GE(got.prompt[t].top.at(0).logprob, got.prompt[t].logprob);
  }
}

TEST_P(OneEngine, EmbeddingsAreTheMeanOfTheLastStates) {
  EngineRequest r;
  r.prompt = prompt(3, 30);
  r.embedding = true;
  const Got got = alone(r, options(2));
  ASSERT_EQ(std::ssize(got.embedding), model.spec.hidden);
  EngineOptions o = options(2);
  o.reports = 96;
  EXPECT_EQ(alone(r, o).embedding, got.embedding);
  EXPECT_TRUE(got.tokens.empty());
}

TEST_P(OneEngine, FollowsItsConstraint) {
  std::vector<std::string> texts(static_cast<std::size_t>(model.spec.vocab));
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = std::string(1, static_cast<char>('a' + i % 26));
  auto tree = std::make_shared<TokenTree>(texts);
  std::shared_ptr<Automaton> automaton = regex_automaton("(abc|xyz){2}");
  EngineRequest r = request(3);
  r.max_new_tokens = 20;
  r.constraint = std::make_shared<TokenConstraint>(automaton, tree);
  const Got got = alone(r, options(1));
  std::string text;
  for (Token t : got.tokens) text += texts[static_cast<std::size_t>(t)];
  EXPECT_TRUE(regex_automaton("(abc|xyz){2}")->accepts(text)) << text;
  EXPECT_EQ(got.reason, StopReason::token);
}

TEST_P(OneEngine, DraftsForcedTokensWithoutChangingTheAnswer) {
  std::vector<std::string> texts(static_cast<std::size_t>(model.spec.vocab));
  for (std::size_t i = 0; i < texts.size(); ++i)
    texts[i] = std::string(1 + i / 26 % 3, static_cast<char>('a' + i % 26));
  auto tree = std::make_shared<TokenTree>(texts);
  std::shared_ptr<Automaton> automaton = regex_automaton("(aabbbccdddeee|xyz[f-h]{3}iiijjkkkll)[m-p]{1,4}qqrrsss");
  std::map<std::int64_t, std::vector<Got>> got;
  std::map<std::int64_t, std::int64_t> steps, drafted;
  for (std::int64_t drafts : {0, 3, 8}) {
    EngineOptions o = options(5);
    o.drafts = drafts;
    o.fair = false;  // else the number of steps depends on the time
    Engine engine({&model}, o);
    std::map<RequestId, Got> answers;
    int step = 0;
    for (unsigned i = 0; i < 40; ++i) {
      EngineRequest r = request(i);
      r.max_new_tokens = i % 7 == 0 ? 6 : 36;
      r.sampling.temperature = 0.2;
      if (i % 5 != 0) r.constraint = std::make_shared<TokenConstraint>(automaton, tree);
      engine.submit(r);
    }
    while (engine.busy()) run(engine, answers, step);
    for (auto& [id, answer] : answers) got[drafts].push_back(answer);
    steps[drafts] = step, drafted[drafts] = engine.speed().drafted;
  }
  for (std::int64_t drafts : {3, 8})
    for (unsigned i = 0; i < 40; ++i) expect_same(got[drafts][i], got[0][i], i);
  EXPECT_EQ(drafted[0], 0);
  EXPECT_GT(drafted[8], 40);
  EXPECT_LT(steps[8], steps[0]);
}

// Permits only "aaaa…", and becomes too ambiguous after 30 letters.
class Cliff : public Automaton {
 public:
  State start() override { return 0; }
  bool may_end(State) override { return false; }

 private:
  State step(State state, unsigned char byte) override {
    if (state >= 30) throw UserError("too ambiguous");
    return byte == 'a' ? state + 1 : kDead;
  }
  std::size_t data_bytes() const override { return 0; }
};

TEST_P(OneEngine, AFailingConstraintEndsOnlyItsAnswer) {
  std::vector<std::string> texts(static_cast<std::size_t>(model.spec.vocab));
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = std::string(1, static_cast<char>('a' + i % 26));
  EngineOptions o = options(4);
  o.drafts = 8;
  EngineRequest other = request(1), failing = request(2);
  other.max_new_tokens = failing.max_new_tokens = 50;
  failing.constraint = std::make_shared<TokenConstraint>(std::make_shared<Cliff>(), std::make_shared<TokenTree>(texts));
  const Got expected = alone(other, o);
  Engine engine({&model}, o);
  const RequestId first = engine.submit(other), second = engine.submit(failing);
  std::map<RequestId, Got> got;
  int step = 0;
  while (engine.busy()) ASSERT_NO_THROW(run(engine, got, step));
  expect_same(got[first], expected, 0);
  EXPECT_EQ(got[second].reason, StopReason::failure);
  EXPECT_GE(got[second].tokens.size(), 29u);
}

// Such as the EOS of a tokenizer with more tokens than the embedding has rows.
TEST_P(OneEngine, StopTokensBeyondTheVocabularyAreIgnored) {
  std::vector<std::string> texts(static_cast<std::size_t>(model.spec.vocab));
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = std::string(1, static_cast<char>('a' + i % 26));
  EngineRequest r = request(3);
  r.max_new_tokens = 20;
  r.constraint = std::make_shared<TokenConstraint>(std::shared_ptr<Automaton>(regex_automaton("(abc|xyz){2}")),
                                                   std::make_shared<TokenTree>(texts));
  const Got expected = alone(r, options(1));
  r.stop_tokens = {static_cast<Token>(model.spec.vocab), static_cast<Token>(model.spec.vocab) + 5000, -1};
  expect_same(alone(r, options(1)), expected, 0);
}

// Answers of the first base end while those of the second are written.
TEST_P(OneEngine, TwoBasesAnswerAsEachAlone) {
  const GoldenLogits second{GetParam()};
  auto of = [&](unsigned i) {
    EngineRequest r = request(i);
    r.model = i % 2;
    return r;
  };
  Engine engine({&model, second.model.get()}, options(8));
  std::map<RequestId, Got> got;
  int step = 0;
  for (unsigned i = 0; i < 40; ++i) engine.submit(of(i));
  while (engine.busy()) run(engine, got, step);
  for (unsigned i = 0; i < 40; ++i) expect_same(got[i + 1], alone(request(i), options(1)), i);
}

TEST_P(OneEngine, PromptsOfOneBaseDoNotKeepAnotherWaiting) {
  const GoldenLogits second{GetParam()};
  EngineOptions o = options(4);
  o.reading = 16;
  o.fair = false;
  Engine engine({&model, second.model.get()}, o);
  std::map<RequestId, Got> got;
  int step = 0;
  auto ask_first = [&](unsigned seed) {
    EngineRequest r;
    r.prompt = prompt(seed, 60);
    r.max_new_tokens = 1;
    engine.submit(r);
  };
  EngineRequest other = request(1);
  other.model = 1;
  for (unsigned i = 0; i < 3; ++i) ask_first(i);
  const RequestId id = engine.submit(other);
  for (; step < 40 && !got[id].ended; run(engine, got, step))
    if (engine.running() < 4) ask_first(static_cast<unsigned>(step) + 10);
  EXPECT_TRUE(got[id].ended);
}

}  // namespace
}  // namespace dml
