// Text from a golden model: many at once, one by one, and by reading the whole prefix again at every step.
#include "generate/generator.h"
#include "core/affinity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/interruption.h"
#include "core/parallel.h"
#include "generate/golden_logits.h"

namespace dml {
namespace {

using Tokens = std::vector<Token>;

class Families : public testing::TestWithParam<std::string> {
 protected:
  static GenerationOptions greedy(std::int64_t tokens) {
    GenerationOptions options;
    options.sampling.greedy = true;
    options.max_new_tokens = tokens;
    return options;
  }

  GoldenLogits golden{GetParam()};
  std::unique_ptr<CausalLm>& model = golden.model;
  std::vector<Tokens> prompts{
      {5, 17, 3, 40, 31, 8, 22}, {9}, {33, 2, 11, 14}, {30, 30, 30, 1, 6, 12, 25, 20, 13, 7, 4}};
};

TEST_P(Families, ALongPromptMayFollowAShortOne) {
  std::vector<Tokens> uneven{prompts[1], prompts[3]};
  EXPECT_EQ(Generator(*model).run(uneven, greedy(2))[1].tokens.size(), 2u);
}

TEST_P(Families, ABatchEqualsOneByOneAndTheWholePrefix) {
  auto together = Generator(*model).run(prompts, greedy(12));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(together[i].tokens.size(), 12u);
    EXPECT_EQ(together[i].reason, StopReason::length);
    auto alone = Generator(*model).run({&prompts[i], 1}, greedy(12));
    EXPECT_EQ(alone[0].tokens, together[i].tokens);
    Tokens text = prompts[i];
    for (Token t : together[i].tokens) {
      ASSERT_EQ(golden.likeliest(text), t);
      text.push_back(t);
    }
  }
}

// A conversation: every prompt is the one before with its answer and a question after it.
TEST_P(Families, ThatKeepsItsCacheReadsOnlyTheNewPartOfATurn) {
  if (model->spec.max_positions < 64) GTEST_SKIP() << "three turns are longer than its positions";
  Generator keeping(*model), plain(*model);
  keeping.keep(64, DType::f32);
  Tokens text = prompts[3];
  std::int64_t known = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const auto before = keeping.speed();
    const Generated with = keeping.run({&text, 1}, greedy(6))[0], without = plain.run({&text, 1}, greedy(6))[0];
    EXPECT_EQ(with.tokens, without.tokens);
    EXPECT_EQ(with.logprobs, without.logprobs);
    EXPECT_EQ(keeping.speed().cached_tokens - before.cached_tokens, known);
    known = std::ssize(text) / KvPool::kTokens * KvPool::kTokens;  // whole pages of what was read
    text.insert(text.end(), with.tokens.begin(), with.tokens.end());
    text.insert(text.end(), prompts[0].begin(), prompts[0].end());
  }
  EXPECT_GT(known, 0);
  const std::vector<Tokens> two{prompts[0], prompts[1]};  // several at a time go beside it
  EXPECT_EQ(keeping.run(two, greedy(6))[1].tokens, plain.run(two, greedy(6))[1].tokens);
}

TEST_P(Families, TakesNoMoreMemoryThanIsMeasuredBefore) {
  GenerationOptions options = greedy(12);
  for (std::size_t together : {std::size_t{1}, std::size_t{3}, SIZE_MAX}) {
    options.together = together;
    const std::size_t measured = Generator(*model).measure(prompts, options).working;
    model->reserve(measured);
    Generator(*model).run(prompts, options);
    EXPECT_EQ(model->reserved(), measured);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Families,
                         testing::Values("llama_tiny", "mistral", "gemma2", "qwen3", "stablelm_parallel",
                                         "stablelm_heads", "smollm3", "granite", "hunyuan", "cohere", "gpt2_scaled"),
                         [](auto& family) { return family.param; });

// Texts that grow past the length where the rope changes: tokens and probabilities that the reference gives.
class GrowingRope : public testing::TestWithParam<std::string> {};
TEST_P(GrowingRope, GivesTheReferencesTextTogetherAndAlone) {
  GoldenLogits golden("llama_tiny", "llama_rope/" + GetParam());
  Json texts = read_json(golden_path("llama_rope/" + GetParam() + "/greedy.json"))["texts"];
  std::vector<Tokens> prompts;
  for (auto& text : texts) prompts.push_back(text["prompt"].get<Tokens>());
  GenerationOptions options;
  options.sampling.greedy = true;
  options.max_new_tokens = 12;
  for (std::size_t together : {prompts.size(), std::size_t{2}, std::size_t{1}}) {
    options.together = together;
    auto results = Generator(*golden.model).run(prompts, options);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(results[i].tokens, texts[i]["tokens"].get<Tokens>()) << i;
      auto want = texts[i]["logprobs"].get<std::vector<double>>();
      for (std::size_t t = 0; t < want.size(); ++t) EXPECT_NEAR(results[i].logprobs[t], want[t], 1e-4) << i << " " << t;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Golden, GrowingRope, testing::Values("dynamic", "longrope"),
                         [](auto& row) { return row.param; });

class LearnedPositions : public Families {};
TEST_P(LearnedPositions, EndAtTheirLimit) {
  auto most = model->spec.max_positions - static_cast<std::int64_t>(prompts[0].size());
  EXPECT_EQ(Generator(*model).run(std::span(prompts).first(1), greedy(most))[0].tokens.size(),
            static_cast<std::size_t>(most));
  EXPECT_THROW(Generator(*model).run(std::span(prompts).first(1), greedy(most + 1)), UserError);
}
INSTANTIATE_TEST_SUITE_P(Golden, LearnedPositions, testing::Values("gpt2"), [](auto& family) { return family.param; });

class Generation : public Families {};
INSTANTIATE_TEST_SUITE_P(Golden, Generation, testing::Values("llama_tiny"), [](auto& family) { return family.param; });

TEST_P(Generation, EndsAtAStopTokenAndLeavesItOut) {
  auto whole = Generator(*model).run(prompts, greedy(10));
  auto options = greedy(10);
  Token stop = whole[0].tokens[4];
  options.stop_tokens = {stop};
  auto stopped = Generator(*model).run(prompts, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto at = std::ranges::find(whole[i].tokens, stop);
    EXPECT_EQ(stopped[i].tokens, Tokens(whole[i].tokens.begin(), at)) << i;
    EXPECT_EQ(stopped[i].reason, at == whole[i].tokens.end() ? StopReason::length : StopReason::token);
    EXPECT_EQ(stopped[i].logprobs.size(), stopped[i].tokens.size());
  }
}

TEST_P(Generation, TheCallerMayEndASequenceWhileOthersContinue) {
  auto whole = Generator(*model).run(prompts, greedy(8));
  std::map<std::size_t, Tokens> heard;
  auto stopped = Generator(*model).run(prompts, greedy(8), [&](std::size_t i, Token t) {
    heard[i].push_back(t);
    return !(i == 2 && heard[i].size() == 3);
  });
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto want = whole[i].tokens;
    if (i == 2) want.resize(3);
    EXPECT_EQ(stopped[i].tokens, want);
    EXPECT_EQ(heard[i], want);
    EXPECT_EQ(stopped[i].reason, i == 2 ? StopReason::caller : StopReason::length);
  }
}

TEST_P(Generation, SamplingIsRepeatableAndIndependentOfOtherRequests) {
  GenerationOptions options;
  options.max_new_tokens = 10;
  options.sampling.temperature = 2;
  options.sampling.seed = 3;
  auto first = Generator(*model).run(prompts, options), again = Generator(*model).run(prompts, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(first[i].tokens, again[i].tokens);
  auto alone = Generator(*model).run(std::span(prompts).first(1), options);
  EXPECT_EQ(alone[0].tokens, first[0].tokens);
  options.sampling.seed = 4;
  EXPECT_NE(Generator(*model).run(prompts, options)[0].tokens, first[0].tokens);
}

TEST_P(Generation, LogprobsAreThoseOfTheModel) {
  auto out = Generator(*model).run(std::span(prompts).first(1), greedy(5))[0];
  // The evaluation of the same text: one loss per label.
  Tokens text = prompts[0];
  text.insert(text.end(), out.tokens.begin(), out.tokens.end());
  Tokens tokens(text.begin(), text.end() - 1), labels(tokens.size(), kIgnore);
  for (std::size_t t = prompts[0].size() - 1; t < tokens.size(); ++t) labels[t] = text[t + 1];
  std::vector<std::int32_t> positions(tokens.size()), starts{0, static_cast<std::int32_t>(tokens.size())};
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<float> losses(out.tokens.size());
  UnitHooks hooks;
  auto size = static_cast<std::int64_t>(tokens.size());
  model->reserve(model->measure({size, static_cast<std::int64_t>(losses.size()), 1}, false));
  model->evaluate({tokens, labels, positions, starts}, hooks, losses);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(out.logprobs[i], -losses[i], 1e-4);
}

TEST_P(Generation, AWaitingPromptTakesTheSlotOfAFinishedOne) {
  std::vector<Tokens> many = prompts;
  for (Token t = 1; t < 8; ++t) many.push_back({t, 12, t});
  auto options = greedy(12);
  auto whole = Generator(*model).run(many, options);
  Token stop = whole[0].tokens[3];  // texts of different lengths
  options.stop_tokens = {stop};
  auto want = Generator(*model).run(many, options);
  for (std::size_t together : {1, 2, 3, 8, 100}) {
    options.together = together;
    std::map<std::size_t, Tokens> heard;
    std::size_t most = 0;
    std::set<std::size_t> under_way;
    auto got = Generator(*model).run(many, options, [&](std::size_t i, Token t) {
      heard[i].push_back(t);
      under_way.insert(i);
      std::erase_if(under_way, [&](std::size_t k) { return heard[k] == want[k].tokens; });
      most = std::max(most, under_way.size());
      return true;
    });
    EXPECT_LE(most, together);
    for (std::size_t i = 0; i < many.size(); ++i) {
      EXPECT_EQ(got[i].tokens, want[i].tokens) << i << " of " << together << " at a time";
      for (std::size_t t = 0; t < got[i].logprobs.size(); ++t)
        EXPECT_NEAR(got[i].logprobs[t], want[i].logprobs[t], 1e-5);
      EXPECT_EQ(heard[i], want[i].tokens);
    }
  }
  options.sampling.greedy = false;
  options.together = 2;
  auto sampled = Generator(*model).run(many, options);
  options.first_number = 4;
  EXPECT_EQ(Generator(*model).run(std::span(many).subspan(4), options)[0].tokens, sampled[4].tokens);
}

TEST_P(Generation, AnEmptyListIsValid) {
  EXPECT_TRUE(Generator(*model).run({}, greedy(5)).empty());
  auto out = Generator(*model).run(prompts, greedy(0));
  EXPECT_EQ(out.size(), prompts.size());
  EXPECT_TRUE(out[0].tokens.empty());
}

TEST_P(Generation, ALongTextAfterAShortPromptHasMemory) {
  Tokens prompt{9};
  EXPECT_EQ(Generator(*model).run({&prompt, 1}, greedy(2600))[0].tokens.size(), 2600u);
}

TEST_P(Generation, WithASmallerCacheIsTheSameForAllTogetherAndOneByOne) {
  for (DType cache : {DType::bf16, DType::int8}) {
    auto options = greedy(12);
    options.cache = cache;
    auto together = Generator(*model).run(prompts, options);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ(Generator(*model).run({&prompts[i], 1}, options)[0].tokens, together[i].tokens);
    // The first token comes from reading the prompt; after it stand rounded keys and values.
    EXPECT_EQ(together[0].tokens[0], golden.likeliest(prompts[0]));
  }
}

TEST_P(Generation, BitsDoNotDependOnThreads) {
  set_threads(1);
  auto one = Generator(*model).run(prompts, greedy(12));
  set_threads(3);
  auto three = Generator(*model).run(prompts, greedy(12));
  set_threads(available_cores());
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(one[i].logprobs, three[i].logprobs);
}

TEST_P(Generation, ManyPromptsAreReadInGroups) {
  std::vector<Tokens> many;
  for (std::size_t i = 0; i < 40; ++i) {
    many.emplace_back(1 + i * 7 % 37);
    for (std::size_t t = 0; t < many[i].size(); ++t) many[i][t] = static_cast<Token>((i * 31 + t * 17) % 50);
  }
  auto together = Generator(*model).run(many, greedy(3));
  for (std::size_t i = 0; i < many.size(); i += 7)
    EXPECT_EQ(Generator(*model).run({&many[i], 1}, greedy(3))[0].tokens, together[i].tokens) << i;
}

// Each step takes the most likely token that the constraint allows, alone and in a batch; the text ends where it must.
TEST_P(Generation, FollowsAConstraint) {
  std::vector<std::string> texts(static_cast<std::size_t>(model->spec.vocab));
  for (std::size_t i = 2; i < texts.size(); ++i) texts[i] = std::string(1, static_cast<char>('a' + i % 26));
  auto options = greedy(20);
  options.stop_tokens = {1};
  auto constrain = [&] {
    options.constraint = std::make_shared<TokenConstraint>(regex_automaton("[a-m]{3}[n-z](x|[a-f]{2})"),
                                                           std::make_shared<const TokenTree>(texts));
  };
  constrain();
  const auto together = Generator(*model).run(prompts, options);
  auto automaton = regex_automaton("[a-m]{3}[n-z](x|[a-f]{2})");
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::string text;
    Tokens prefix = prompts[i];
    for (Token token : together[i].tokens) {
      const auto logits = golden.logits(prefix);
      for (std::size_t t = 2; t < texts.size(); ++t)
        if (automaton->after(automaton->start(), text + texts[t]) != Automaton::kDead) {
          EXPECT_GE(logits[static_cast<std::size_t>(token)], logits[t]);
        }
      text += texts[static_cast<std::size_t>(token)];
      prefix.push_back(token);
    }
    EXPECT_TRUE(automaton->accepts(text)) << text;
    EXPECT_EQ(together[i].reason, StopReason::token);
    constrain();
    EXPECT_EQ(Generator(*model).run({&prompts[i], 1}, options)[0].tokens, together[i].tokens);
  }
}

TEST_P(Generation, CountsItsTokens) {
  Generator generator(*model);
  generator.run(prompts, greedy(4));
  EXPECT_EQ(generator.speed().prompt_tokens, 7 + 1 + 4 + 11);
  EXPECT_EQ(generator.speed().new_tokens, 4 * 3);  // the first token of each comes from reading its prompt
}

// One Ctrl-C while output is unfinished ends generation within a token, not when all texts are complete.
TEST(GeneratorDeathTest, StopsAfterASignalWhileOutputIsUnfinished) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto interrupted = [](std::int64_t beams) {
    GoldenLogits golden(golden_families().front());
    const UnfinishedOutput output;
    GenerationOptions options;
    options.max_new_tokens = 8;
    options.beams = beams;
    int tokens = 0;
    try {
      Generator generator(*golden.model);
      if (beams > 1) std::raise(SIGINT);  // its tokens are told at the end
      generator.run(std::vector<Tokens>{{5, 17, 3}}, options, [&](std::size_t, Token) {
        if (++tokens == 1) std::raise(SIGINT);
        return true;
      });
    } catch (const Error& e) {
      std::_Exit(tokens <= 1 ? static_cast<int>(e.code()) : 1);
    }
    std::_Exit(2);
  };
  EXPECT_EXIT(interrupted(1), testing::ExitedWithCode(130), "");
  EXPECT_EXIT(interrupted(2), testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace dml
