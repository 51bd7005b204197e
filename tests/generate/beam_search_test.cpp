// Beam search against a search written plainly, which reads every text from its beginning, and against all texts there
// are.
#include <gtest/gtest.h>

#include <cmath>

#include "generate/generator.h"
#include "generate/golden_logits.h"

namespace dml {
namespace {

using Tokens = std::vector<Token>;

struct Text {
  Tokens tokens;
  double sum = 0;
};

class BeamSearch : public testing::TestWithParam<std::string> {
 protected:
  std::vector<double> logprobs(const Tokens& text) {
    Tokens whole = prompt;
    whole.insert(whole.end(), text.begin(), text.end());
    auto logits = golden.logits(whole);
    double sum = 0;
    for (float x : logits) sum += std::exp(static_cast<double>(x));
    std::vector<double> out;
    for (float x : logits) out.push_back(x - std::log(sum));
    return out;
  }

  // As the Hugging Face documentation tells it, with lists of whole texts.
  Tokens plain_search(std::size_t beams, std::int64_t most, double penalty, Token stop) {
    std::vector<Text> live{{}};
    std::vector<std::pair<double, Tokens>> finished;
    auto by_score = [](auto& a, auto& b) { return a.first > b.first; };
    auto keep = [&](double score, const Tokens& tokens) {
      finished.push_back({score, tokens});
      std::ranges::stable_sort(finished, by_score);
      if (finished.size() > beams) finished.pop_back();
    };
    for (std::int64_t length = 1; length <= most; ++length) {
      std::vector<Text> reach;
      for (const Text& text : live) {
        auto row = logprobs(text.tokens);
        for (std::size_t v = 0; v < row.size(); ++v) {
          Text more = text;
          more.tokens.push_back(static_cast<Token>(v));
          more.sum += row[v];
          reach.push_back(more);
        }
      }
      std::ranges::stable_sort(reach, [](auto& a, auto& b) { return a.sum > b.sum; });
      live.clear();
      const double divisor = std::pow(static_cast<double>(length), penalty);
      for (std::size_t rank = 0; rank < 2 * beams && live.size() < beams; ++rank) {
        if (reach[rank].tokens.back() != stop) live.push_back(reach[rank]);
        else if (rank < beams)
          keep(reach[rank].sum / divisor, Tokens(reach[rank].tokens.begin(), reach[rank].tokens.end() - 1));
      }
      if (finished.size() == beams && finished.back().first >= reach[0].sum / divisor) return finished[0].second;
    }
    for (const Text& text : live) keep(text.sum / std::pow(static_cast<double>(most), penalty), text.tokens);
    return finished[0].second;
  }

  Generated search(std::int64_t beams, std::int64_t most, double penalty, Token stop) {
    GenerationOptions options;
    options.beams = beams;
    options.sampling.greedy = true;
    options.max_new_tokens = most;
    options.length_penalty = penalty;
    options.stop_tokens = {stop};
    return Generator(*golden.model).run({&prompt, 1}, options)[0];
  }

  // "longrope": llama_tiny with that rope, after a prompt that grows past the length where it changes.
  const bool long_text = GetParam() == "longrope";
  GoldenLogits golden{long_text ? "llama_tiny" : GetParam(), long_text ? "llama_rope/longrope" : ""};
  Tokens prompt = long_text ? Tokens(28, 9) : Tokens{5, 17, 3, 40, 31};
};

TEST_P(BeamSearch, FindsWhatThePlainSearchFinds) {
  for (Token stop : {Token{-1}, search(1, 9, 1, -1).tokens.back(), search(3, 9, 1, -1).tokens[1]})
    for (double penalty : {1.0, 0.0, 2.5, -1.0})
      for (std::int64_t beams : {2, 3, 5})
        EXPECT_EQ(search(beams, 9, penalty, stop).tokens,
                  plain_search(static_cast<std::size_t>(beams), 9, penalty, stop))
            << stop << " " << penalty << " " << beams;
}

TEST_P(BeamSearch, WithABeamForEveryTokenFindsTheLikeliestPair) {
  auto found = search(97, 2, 0, -1);
  double best = -1e9;
  Tokens pair;
  auto first = logprobs({});
  for (std::size_t a = 0; a < first.size(); ++a) {
    auto second = logprobs({static_cast<Token>(a)});
    for (std::size_t b = 0; b < second.size(); ++b)
      if (first[a] + second[b] > best) {
        best = first[a] + second[b];
        pair = {static_cast<Token>(a), static_cast<Token>(b)};
      }
  }
  EXPECT_EQ(found.tokens, pair);
  EXPECT_NEAR(found.logprobs[0] + found.logprobs[1], best, 1e-4);
}

TEST_P(BeamSearch, ReportsTheTextAtTheEnd) {
  GenerationOptions options;
  options.beams = 3;
  options.max_new_tokens = 6;
  Tokens heard;
  auto all = Generator(*golden.model).run({&prompt, 1}, options, [&](std::size_t, Token t) {
    heard.push_back(t);
    return heard.size() < 4;
  })[0];
  EXPECT_EQ(heard.size(), 4u);
  EXPECT_EQ(all.tokens, heard);
  EXPECT_EQ(all.logprobs.size(), 4u);
  EXPECT_EQ(all.reason, StopReason::caller);
}

INSTANTIATE_TEST_SUITE_P(Golden, BeamSearch, testing::Values("llama_tiny", "mistral", "gpt2", "longrope"),
                         [](auto& family) { return family.param; });

}  // namespace
}  // namespace dml
