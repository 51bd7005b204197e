#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/random.h"
#include "data/loader.h"
#include "data/packer.h"
#include "data/schedule.h"

namespace dml {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> random_lengths(std::size_t count, std::int32_t most) {
  Random random(7, Purpose::sample);
  std::vector<std::int32_t> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = 1 + static_cast<std::int32_t>(random.below(i, static_cast<std::uint64_t>(most)));
  return out;
}

std::vector<std::int32_t> counting(std::size_t n) {
  std::vector<std::int32_t> out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

std::vector<std::vector<std::int32_t>> as_vectors(const Lists& lists) {
  std::vector<std::vector<std::int32_t>> out;
  for (std::int64_t i = 0; i < lists.size(); ++i) out.emplace_back(lists[i].begin(), lists[i].end());
  return out;
}

TEST(Packer, PutsEachExampleIntoTheBinItFitsMostTightly) {
  // Longest first: 7 | 6 | 5 … 4 fits after 6 (room 4) rather than 5 (room 5); 3 after 7; 2 after 5.
  std::vector<std::int32_t> lengths{5, 3, 7, 2, 6, 4};
  EXPECT_THAT(as_vectors(best_fit(counting(6), lengths, 10, 100, 100)),
              ElementsAre(ElementsAre(2, 1), ElementsAre(4, 5), ElementsAre(0, 3)));
}

TEST(Packer, KeepsTheOrderWhenItPacksSequentially) {
  std::vector<std::int32_t> lengths{5, 3, 7, 2, 6, 4};
  EXPECT_THAT(as_vectors(next_fit(counting(6), lengths, 10, 100)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_THAT(as_vectors(next_fit(counting(6), lengths, 100, 4)),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5)));
}

TEST(Packer, RespectsCapacityAndCountAndKeepsEveryExample) {
  auto lengths = random_lengths(5000, 900);
  for (std::int64_t most : {3, 200}) {
    Lists bins = best_fit(counting(lengths.size()), lengths, 1024, most, 1000);
    std::vector<int> seen(lengths.size());
    for (std::int64_t b = 0; b < bins.size(); ++b) {
      std::int64_t sum = 0;
      for (auto i : bins[b]) sum += lengths[static_cast<std::size_t>(i)], ++seen[static_cast<std::size_t>(i)];
      EXPECT_LE(sum, 1024);
      EXPECT_LE(static_cast<std::int64_t>(bins[b].size()), most);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(seen.size()));
  }
}

struct Case {
  const char* name;
  bool packing, keep_order, sequential, by_length;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class EverySchedule : public ::testing::TestWithParam<Case> {};

TEST_P(EverySchedule, HoldsEveryExampleOnceAnEpochWithinItsBounds) {
  auto lengths = random_lengths(1003, 300);
  ScheduleOptions o;
  o.sequence_len = 512;
  o.micro_batch_size = 3;
  o.micro_batches_per_step = 4;
  o.num_epochs = 2;
  o.packing = GetParam().packing;
  o.keep_order = GetParam().keep_order;
  o.sequential_packing = GetParam().sequential;
  o.group_by_length = GetParam().by_length;
  Schedule schedule(lengths, o);
  ASSERT_EQ(schedule.step(schedule.steps() - 1).epoch, 1);
  std::vector<int> seen(lengths.size());
  std::int64_t longest = 0, tokens = 0;
  std::vector<std::int32_t> first_epoch, second_epoch;
  for (std::int64_t s = 0; s < schedule.steps(); ++s) {
    auto step = schedule.step(s);
    EXPECT_GE(step.micro_batches, 1);
    EXPECT_TRUE(step.micro_batches == 4 || s + 1 == schedule.steps() || schedule.step(s + 1).epoch != step.epoch);
    for (std::int64_t m = 0; m < step.micro_batches; ++m) {
      std::int64_t sum = 0;
      for (auto i : schedule.examples(s, m)) {
        sum += lengths[static_cast<std::size_t>(i)];
        ++seen[static_cast<std::size_t>(i)];
        (step.epoch == 0 ? first_epoch : second_epoch).push_back(i);
      }
      EXPECT_TRUE(!o.packing || sum <= o.micro_batch_size * o.sequence_len);
      longest = std::max(longest, sum);
      tokens += sum;
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 2), static_cast<std::ptrdiff_t>(seen.size()));
  EXPECT_EQ(schedule.longest(), longest);
  EXPECT_EQ(schedule.tokens(), tokens);
  EXPECT_EQ(first_epoch == counting(lengths.size()), o.keep_order);
  EXPECT_EQ(first_epoch == second_epoch, o.keep_order);
}

INSTANTIATE_TEST_SUITE_P(
    All, EverySchedule,
    ::testing::Values(Case{"unpacked", false, false, false, false}, Case{"ordered", false, true, false, false},
                      Case{"by_length", false, false, false, true}, Case{"packed", true, false, false, false},
                      Case{"sequential", true, false, true, false}, Case{"packed_ordered", true, true, false, false}),
    [](auto& test) { return test.param.name; });

TEST(Schedule, IsAPureFunctionOfSeedAndEpoch) {
  auto lengths = random_lengths(500, 100);
  ScheduleOptions o;
  o.num_epochs = 3;
  o.packing = true;
  Schedule a(lengths, o), b(lengths, o);
  // Asked for in another order.
  std::map<std::int64_t, std::vector<std::int32_t>> backwards;
  for (std::int64_t s = b.steps(); s-- > 0;) backwards[s].assign(b.examples(s, 0).begin(), b.examples(s, 0).end());
  for (std::int64_t s = 0; s < a.steps(); ++s) EXPECT_TRUE(std::ranges::equal(a.examples(s, 0), backwards[s]));
  o.seed = 43;
  Schedule c(lengths, o);
  EXPECT_FALSE(std::ranges::equal(a.examples(0, 0), c.examples(0, 0)));
}

TEST(Schedule, CountsStepsExactly) {
  std::vector<std::int32_t> lengths(10, 5);
  ScheduleOptions o;
  o.micro_batch_size = 2;
  o.micro_batches_per_step = 2;
  EXPECT_EQ(Schedule(lengths, o).steps(), 3);  // 5 micro-batches: 2, 2, 1
  EXPECT_EQ(Schedule(lengths, o).step(2).micro_batches, 1);
  EXPECT_DOUBLE_EQ(Schedule(lengths, o).step(0).epochs_done, 0.4);
  o.num_epochs = 1.5;
  EXPECT_EQ(Schedule(lengths, o).steps(), 5);
  o.max_steps = 7;
  EXPECT_EQ(Schedule(lengths, o).steps(), 7);
  EXPECT_EQ(Schedule(lengths, o).step(6).epoch, 2);
}

// Preferences: micro-batches are filled with tokens, and only the last step of an epoch may have fewer examples.
TEST(Schedule, StepsOfPreferencesHaveTheirExamplesWhateverTheLengths) {
  const auto lengths = random_lengths(101, 400);
  for (const bool by_length : {false, true})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      ScheduleOptions o{.micro_batch_size = 4, .micro_batch_tokens = 512, .num_epochs = 2};
      o.group_by_length = by_length;
      o.seed = seed;
      const Schedule schedule(lengths, o);
      ASSERT_EQ(schedule.steps(), 52);
      std::vector<int> seen(lengths.size());
      for (std::int64_t s = 0; s < schedule.steps(); ++s) {
        const auto step = schedule.step(s);
        std::int64_t examples = 0;
        for (std::int64_t m = 0; m < step.micro_batches; ++m)
          for (auto i : schedule.examples(s, m)) ++seen[static_cast<std::size_t>(i)], ++examples;
        const std::int64_t of_epoch = s % 26;
        EXPECT_EQ(examples, of_epoch == 25 ? 1 : 4) << s;
        EXPECT_DOUBLE_EQ(step.epochs_done,
                         static_cast<double>(s / 26) + std::min(1.0, static_cast<double>(4 * (of_epoch + 1)) / 101))
            << s;
      }
      EXPECT_EQ(std::ranges::count(seen, 2), 101);
    }
}

// Half of 22 pairs in steps of 4: three steps, whatever micro-batches they have.
TEST(Schedule, CountsTheExamplesOfPreferencesNotTheirMicroBatches) {
  std::vector<std::int32_t> lengths(22, 100);
  for (std::size_t i = 0; i < 4; ++i) lengths[i] = 1000;  // a micro-batch each
  ScheduleOptions o{.micro_batch_size = 4, .micro_batch_tokens = 1024, .num_epochs = 0.5, .keep_order = true};
  const Schedule half(lengths, o);
  ASSERT_EQ(half.steps(), 3);
  EXPECT_DOUBLE_EQ(half.step(0).epochs_done, 4.0 / 22);
  EXPECT_DOUBLE_EQ(half.step(2).epochs_done, 12.0 / 22);
  o.num_epochs = 1;
  o.rounds = 2;  // each step twice, as with completions
  const Schedule twice(lengths, o);
  ASSERT_EQ(twice.steps(), 12);
  EXPECT_DOUBLE_EQ(twice.step(0).epochs_done, 2.0 / 22);
  EXPECT_DOUBLE_EQ(twice.step(11).epochs_done, 1);
}

TEST(Loader, ConcatenatesDocumentsAndMasksTheirBoundary) {
  std::vector<Token> ids{1, 10, 11, 2, 1, 20, 2}, labels{1, 10, kIgnore, 2, kIgnore, 20, 2};
  std::vector<std::int64_t> offsets{0, 4, 7};
  std::vector<std::int32_t> chosen{1, 0};
  ScheduleOptions o;
  o.micro_batch_size = 2;
  o.keep_order = true;
  Schedule schedule({3, 4}, o);
  Loader loader(Examples(ids, labels, offsets, chosen), schedule);
  PackedBatch batch = loader.load(0, 0);
  EXPECT_THAT(batch.tokens, ElementsAre(1, 20, 2, 1, 10, 11, 2));
  EXPECT_THAT(batch.labels, ElementsAre(20, 2, kIgnore, 10, kIgnore, 2, kIgnore));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 0, 1, 2, 3));
  EXPECT_THAT(batch.starts, ElementsAre(0, 3, 7));
  const Token* before = batch.tokens.data();
  EXPECT_EQ(loader.load(0, 0).tokens.data(), before);
}

TEST(Loader, GivesLabelsTheWeightsOfTheirTokensAndRows) {
  std::vector<Token> ids{1, 10, 11, 2, 1, 20, 2}, labels{1, 10, kIgnore, 2, kIgnore, 20, 2};
  std::vector<std::int64_t> offsets{0, 4, 7};
  std::vector<std::int32_t> chosen{0, 1};
  std::vector<float> numbers{2, 0, 0.5f, 0}, weights{1, 3, 1, 4, 1, 1, 1};
  ScheduleOptions o;
  o.micro_batch_size = 2;
  o.keep_order = true;
  Schedule schedule({4, 3}, o);
  Loader loader(Examples(ids, labels, offsets, chosen, {}, {}, numbers, weights), schedule);
  const PackedBatch batch = loader.load(0, 0);
  ASSERT_EQ(batch.weights.size(), batch.labels.size());
  EXPECT_EQ(batch.weights[0], 6);  // of token 10: row 2, token 3
  EXPECT_EQ(batch.weights[2], 8);
  EXPECT_EQ(batch.weights[4], 0.5f);
  std::vector<float> ones(numbers);
  ones = {1, 0, 1, 0};
  EXPECT_TRUE(Loader(Examples(ids, labels, offsets, chosen, {}, {}, ones), schedule).load(0, 0).weights.empty());
}

TEST(Loader, LabelsTheLastTokenForRewardModels) {
  std::vector<Token> ids{1, 10, 11, 2, 1, 20, 2}, labels{kIgnore, 10, kIgnore, 2, kIgnore, 20, 2};
  std::vector<std::int64_t> offsets{0, 7};
  std::vector<std::int32_t> chosen{0}, kinds{static_cast<std::int32_t>(ExampleKind::pair)}, splits{4};
  std::vector<float> numbers{2, 0.5f};
  Schedule schedule({7}, {});
  Loader loader(Examples(ids, labels, offsets, chosen, kinds, splits, numbers), schedule,
                {.labels = LabelRule::text_end});
  const PackedBatch batch = loader.load(0, 0);
  EXPECT_THAT(batch.labels, ElementsAre(kIgnore, kIgnore, kIgnore, 0, kIgnore, kIgnore, 0));
  EXPECT_EQ(batch.groups[0].weight, 2);
  EXPECT_EQ(batch.groups[0].margin, 0.5);
}

TEST(Loader, WeighsTheTailOfTheLongerAnswer) {
  std::vector<Token> ids{1, 10, 11, 2, 1, 20, 2}, labels{kIgnore, 10, 11, 2, kIgnore, 20, 2};
  std::vector<std::int64_t> offsets{0, 7};
  std::vector<std::int32_t> chosen{0}, kinds{static_cast<std::int32_t>(ExampleKind::pair)}, splits{4};
  Schedule schedule({7}, {});
  Loader loader(Examples(ids, labels, offsets, chosen, kinds, splits), schedule, {.ld_alpha = 0.25});
  const PackedBatch batch = loader.load(0, 0);
  EXPECT_EQ(batch.groups[0].completion, 0);
  EXPECT_EQ(batch.groups[0].tail, 2);  // after two tokens, as many as the other answer has
  EXPECT_EQ(batch.groups[0].tail_weight, 0.25);
}

}  // namespace
}  // namespace dml
