// Learning from rewards: advantages and losses beside published numbers and finite differences, the objective on a
// small model beside PyTorch's gradients (tools/make_policy_golden.py).
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "data/schedule.h"
#include "model/golden.h"
#include "temporary_folder.h"
#include "train/objective/advantages.h"
#include "train/objective/policy_objective.h"

namespace dml {
namespace {

TEST(Advantages, OfAGroup) {
  const std::vector<std::vector<double>> rewards{{1, 0, 0, 1, .5, 0, 0, 0}};
  const Advantages a = advantages_of(rewards, {.group = 8, .weights = {1}});
  EXPECT_NEAR(mean_and_deviation(a.rewards).mean, .3125, 1e-12);
  EXPECT_NEAR(a.reward_std, .458062691, 1e-9);
  EXPECT_EQ(a.zero_std, 0);
  const std::vector<double> expected{1.500558675, -.682072125, -.682072125, 1.500558675,
                                     .409243275,  -.682072125, -.682072125, -.682072125};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(a.values[i], expected[i], 1e-9);
}

TEST(Advantages, ScaledByTheBatchOrNotAtAll) {
  const std::vector<std::vector<double>> rewards{{1, 3, 10, 10}};
  const double deviation = mean_and_deviation(rewards[0]).deviation;
  const Advantages batch = advantages_of(rewards, {.group = 2, .weights = {2}, .scale = RewardScale::batch});
  EXPECT_NEAR(batch.values[1], 2 / (2 * deviation + 1e-4), 1e-12);
  EXPECT_NEAR(batch.reward_std, 2 * deviation, 1e-12);
  EXPECT_EQ(batch.values[2], 0);
  EXPECT_EQ(batch.zero_std, .5);
  const Advantages none = advantages_of(rewards, {.group = 2, .weights = {2}, .scale = RewardScale::none});
  EXPECT_EQ(none.values, (std::vector<double>{-2, 2, 0, 0}));
}

// GDPO: a reward of thousands does not drown one of ones.
TEST(Advantages, EachRewardByItself) {
  const std::vector<std::vector<double>> rewards{{0, 1, 0, 1}, {0, 0, 5000, 0}};
  const Advantages a = advantages_of(rewards, {.group = 4, .weights = {1, 1}, .normalize_each = true});
  const auto z = [](const std::vector<double>& r, std::size_t i) {
    const auto m = mean_and_deviation(r);
    return (r[i] - m.mean) / (m.deviation + 1e-4);
  };
  std::vector<double> sums;
  for (std::size_t i = 0; i < 4; ++i) sums.push_back(z(rewards[0], i) + z(rewards[1], i));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(a.values[i], z(sums, i), 1e-12);
  EXPECT_GT(a.values[1], 0);
}

TEST(PolicyLoss, DerivativesAreThoseOfItsValues) {
  const std::vector<double> old{-1.2, -.4, -2.5, -.9}, reference{-1, -.5, -2, -1.4};
  std::vector<double> now{-1.0, -.75, -2.4, -.2};
  for (const bool sequence : {false, true})
    for (const double advantage : {1.3, -.8})
      for (const std::optional<double> delta : {std::optional<double>(), std::optional<double>(1.5)}) {
        const PolicySettings s{
            .epsilon_low = .1, .epsilon_high = .3, .delta = delta, .beta = .05, .sequence_level = sequence};
        const auto sum = [&] {
          std::vector<PolicyToken> out(now.size());
          policy_losses(now, old, reference, advantage, s, out);
          double total = 0;
          for (const PolicyToken& t : out) total += t.value;
          return total;
        };
        std::vector<PolicyToken> at(now.size());
        policy_losses(now, old, reference, advantage, s, at);
        for (std::size_t t = 0; t < now.size(); ++t) {
          const double here = now[t], h = 1e-6;
          now[t] = here + h;
          const double above = sum();
          now[t] = here - h;
          const double below = sum();
          now[t] = here;
          EXPECT_NEAR(at[t].by_logp, (above - below) / (2 * h), 1e-7) << "token " << t << ", sequence " << sequence;
        }
      }
}

TEST(PolicyLoss, WithoutEarlierProbabilitiesItIsThePolicyGradient) {
  std::vector<PolicyToken> out(2);
  policy_losses(std::vector<double>{-1, -3}, {}, {}, .5, {}, out);
  for (const PolicyToken& t : out) {
    EXPECT_EQ(t.value, -.5);
    EXPECT_EQ(t.by_logp, -.5);
    EXPECT_FALSE(t.clipped_low || t.clipped_high);
  }
}

// Completions that are there already.
class Fixed : public Completions {
 public:
  explicit Fixed(std::vector<Completion> all) : all_(std::move(all)) {}
  Sampled sample(std::int64_t, CausalLm&, Comm&) override {
    ++samplings;
    return {{all_}, {{"reward", 0.25}}};
  }
  Memory memory(CausalLm&) override { return {}; }
  int samplings = 0;

 private:
  std::vector<Completion> all_;
};

struct GoldenPolicy {
  Json golden = read_json(golden_path("policy.json"));
  std::vector<Completion> completions(const Json& one) const {
    std::vector<Completion> out;
    for (std::size_t i = 0; i < golden["documents"].size(); ++i) {
      Completion c{golden["documents"][i]["tokens"].get<std::vector<Token>>(), golden["documents"][i]["prompt"],
                   golden["ended"][i], golden["advantages"][i]};
      if (one["settings"].value("old", false)) c.old_logps = one["old"][i].get<std::vector<double>>();
      out.push_back(std::move(c));
    }
    return out;
  }
  PolicyObjectiveSettings settings(const Json& s) const {
    PolicyObjectiveSettings out;
    out.temperature = s.value("temperature", 1.0);
    out.mask_truncated = s.value("mask_truncated", false);
    out.loss.epsilon_low = s.value("epsilon", .2);
    out.loss.epsilon_high = s.value("epsilon_high", out.loss.epsilon_low);
    if (s.contains("delta")) out.loss.delta = s["delta"].get<double>();
    out.loss.beta = s.value("beta", 0.0);
    out.loss.sequence_level = s.value("sequence", false);
    out.loss.longest = golden["longest"];
    const std::string type = s["loss_type"];
    out.loss.average = type == "grpo"      ? PolicyAverage::completions
                       : type == "dr_grpo" ? PolicyAverage::fixed
                                           : PolicyAverage::tokens;
    return out;
  }
  // The prompts as a loader gives them: documents without labels.
  GoldenBatch prompts() const {
    GoldenBatch out(golden_path("llama_tiny") + "/batch.json");
    out.tokens.clear(), out.labels.clear(), out.positions.clear();
    out.starts.assign(1, 0);
    for (const Json& d : golden["documents"]) {
      const auto tokens = d["tokens"].get<std::vector<Token>>();
      const auto prompt = d["prompt"].get<std::int32_t>();
      for (std::int32_t t = 0; t < prompt; ++t) {
        out.tokens.push_back(tokens[static_cast<std::size_t>(t)]);
        out.labels.push_back(kIgnore);
        out.positions.push_back(t);
      }
      out.starts.push_back(static_cast<std::int32_t>(out.tokens.size()));
    }
    return out;
  }
};

TEST(PolicyObjective, LossesAndGradientsAreThoseOfPyTorch) {
  const GoldenPolicy policy;
  const GoldenBatch prompts = policy.prompts();
  const GoldenBatch room(golden_path("llama_tiny") + "/batch.json");  // longer than any completion
  const Schedule schedule({13, 13, 13, 13}, {.micro_batch_size = 4, .keep_order = true});
  for (const Json& one : policy.golden["cases"]) {
    SCOPED_TRACE(dump(one["settings"]));
    GoldenModel golden("llama_tiny", false, room);
    const PolicyObjectiveSettings settings = policy.settings(one["settings"]);
    std::unique_ptr<CausalLm> reference;
    if (settings.loss.beta > 0) reference = std::move(GoldenModel("llama_tiny", true, room).model);
    PolicyObjective objective(settings, schedule, std::make_unique<Fixed>(policy.completions(one)),
                              std::move(reference));
    golden.model->reserve(objective.measure(*golden.model, {64, 64, 4}, true));
    const auto comm = make_self_comm();
    UnitHooks none;
    const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t) { return prompts.view(); };
    objective.begin({1, load, *golden.model, none, *comm, 0});
    EXPECT_EQ(objective.batch_values(), (std::vector<NamedValue>{{"reward", .25}}));
    const PackedBatch batch = objective.completed(prompts.view());
    const double evaluated = objective.evaluate(*golden.model, batch, none).mean();
    const LossSums sums = objective.train(*golden.model, batch, {}, none);
    EXPECT_NEAR(evaluated, sums.mean(), 1e-6);
    EXPECT_NEAR(sums.mean(), one["loss"].get<double>(), 1e-5);
    for (std::size_t u = 0; u < golden.gradients.size(); ++u)
      for (const Parameter& p : golden.model->parameters.units()[u].parameters) {
        const Json& expected = one["gradients"][p.name];
        double squares = 0, turned = 0;
        for (std::int64_t j = 0; j < p.size(); ++j) {
          const double g =
              static_cast<double>(golden.gradients[u][static_cast<std::size_t>(p.offset + j)]) / sums.denominator;
          squares += g * g;
          turned += g * std::cos(0.7 * static_cast<double>(j));
        }
        const double norm = expected["norm"];
        EXPECT_NEAR(std::sqrt(squares), norm, 1e-4 * norm) << p.name;
        EXPECT_NEAR(turned, expected["turned"].get<double>(), 1e-4 * norm) << p.name;
      }
  }
}

// Steps over completions of one moment: their ratio is with the model of that moment, and a resumed run has it again.
TEST(PolicyObjective, KeepsWhatWasSampledForLaterSteps) {
  const GoldenPolicy policy;
  const GoldenBatch prompts = policy.prompts(), room(golden_path("llama_tiny") + "/batch.json");
  ScheduleOptions options{.micro_batch_size = 4, .keep_order = true};
  options.rounds = 3;
  const Schedule schedule({13, 13, 13, 13}, options);
  ASSERT_EQ(schedule.steps(), 3);
  const Json& one = policy.golden["cases"][0];
  const auto comm = make_self_comm();
  UnitHooks none;
  const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t) { return prompts.view(); };
  GoldenModel golden("llama_tiny", false, room);
  auto source = std::make_unique<Fixed>(policy.completions(one));
  Fixed& fixed = *source;
  PolicyObjective objective(policy.settings(one["settings"]), schedule, std::move(source));
  golden.model->reserve(objective.measure(*golden.model, {64, 64, 4}, true));
  objective.begin({1, load, *golden.model, none, *comm, 0});
  const double first = objective.train(*golden.model, objective.completed(prompts.view()), {}, none).mean();
  const testing_tools::TemporaryFolder folder;
  objective.write_state(folder.path());
  for (const Unit& unit : golden.model->parameters.units()) unit.value.floats()[0] += .05f;

  objective.begin({1, load, *golden.model, none, *comm, 1});
  EXPECT_EQ(fixed.samplings, 1);
  EXPECT_TRUE(objective.batch_values().empty());
  const double second = objective.train(*golden.model, objective.completed(prompts.view()), {}, none).mean();
  EXPECT_NE(first, second);

  const SampledSteps stored = read_completions(completions_file(folder.path()));
  Json list = Json::array();  // as checkpoints of earlier versions have them
  for (const Completion& c : stored.steps.at(0)) list.push_back({c.text, c.prompt, c.ended, c.advantage, c.old_logps});
  const Json earlier = {{"sampled_at", 0}, {"steps", {list, list, list}}};
  for (const std::string& checkpoint : {folder.path(), folder / "of_an_earlier_version"}) {
    PolicyObjective resumed(policy.settings(one["settings"]), schedule,
                            std::make_unique<Fixed>(std::vector<Completion>()));
    resumed.read_state(checkpoint, checkpoint == folder.path() ? Json() : parse_json(dump(earlier), "state"));
    resumed.begin({1, load, *golden.model, none, *comm, 1});
    EXPECT_EQ(resumed.train(*golden.model, resumed.completed(prompts.view()), {}, none).mean(), second);
  }
  objective.begin({1, load, *golden.model, none, *comm, 2});
  objective.write_state(folder / "nothing");
  EXPECT_FALSE(file_exists(completions_file(folder / "nothing")));
  EXPECT_THROW(objective.read_state(folder / "nothing", {{"steps", 3}}), UserError);
}

SampledSteps sampled_steps(std::size_t count, std::size_t tokens) {
  SampledSteps out{4, std::vector<std::vector<Completion>>(2)};
  for (std::size_t i = 0; i < count; ++i) {
    Completion c{std::vector<Token>(tokens), 7, i % 3 == 0, .1 * static_cast<double>(i)};
    for (std::size_t t = 0; t < tokens; ++t) c.text[t] = static_cast<Token>((i * 31 + t * 17) % 50000);
    if (i % 5 > 0)  // the others have no loss
      for (std::size_t t = 7; t < tokens; ++t) c.old_logps.push_back(-1 / static_cast<double>(t + i));
    out.steps[i * 2 / count].push_back(std::move(c));
  }
  return out;
}

TEST(Completions, SurviveWritingAndReading) {
  const testing_tools::TemporaryFolder folder;
  const std::string path = completions_file(folder.path());
  for (const auto& [count, tokens] : {std::pair<std::size_t, std::size_t>{1000, 1000}, {1, 7}}) {
    const SampledSteps written = sampled_steps(count, tokens);
    write_completions(path, written);
    const SampledSteps read = read_completions(path);
    EXPECT_EQ(read.first, 4);
    ASSERT_EQ(read.steps.size(), count > 1 ? 2u : 1u);
    for (std::size_t s = 0; s < read.steps.size(); ++s) {
      ASSERT_EQ(read.steps[s].size(), written.steps[s].size());
      for (std::size_t i = 0; i < read.steps[s].size(); ++i) {
        const Completion &a = read.steps[s][i], &b = written.steps[s][i];
        EXPECT_TRUE(a.text == b.text && a.prompt == b.prompt && a.ended == b.ended && a.advantage == b.advantage &&
                    a.old_logps == b.old_logps)
            << s << ", " << i;
      }
    }
  }
}

TEST(Completions, DamagedFilesAreRefused) {
  const testing_tools::TemporaryFolder folder;
  const std::string path = completions_file(folder.path());
  const auto refused = [&](const std::function<void(SampledSteps&)>& damage) {
    SampledSteps sampled = sampled_steps(4, 9);
    damage(sampled);
    write_completions(path, sampled);
    EXPECT_THROW(read_completions(path), UserError);
  };
  refused([](SampledSteps& s) { s.first = -1; });
  refused([](SampledSteps& s) { s.steps[0][0].prompt = 10; });
  refused([](SampledSteps& s) { s.steps[0][1].old_logps.pop_back(); });
  refused([](SampledSteps& s) { s.steps.insert(s.steps.begin(), std::vector<Completion>()); });
  write_safetensors(path, {{"tokens", DType::f32, {0}}}, [](const TensorInfo&) { return std::span<const float>(); });
  EXPECT_THROW(read_completions(path), UserError);
}

TEST(Schedule, StepsThatAreGeneratedTogetherAreTakenInOrderAndThenAgain) {
  ScheduleOptions o{.micro_batch_size = 2, .micro_batches_per_step = 2, .keep_order = true};
  o.copies = 2, o.completion = 10, o.steps_together = 2, o.rounds = 3;
  const Schedule s(std::vector<std::int32_t>(10, 5), o);  // 20 completions, 5 different steps of 4: 2 + 2 + 1
  EXPECT_EQ(s.steps(), 15);
  EXPECT_EQ(s.longest(), 30);
  const std::vector<std::int64_t> numbers{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4, 4, 4},
      rounds{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 1, 2}, firsts{0, 0, 0, 0, 0, 0, 6, 6, 6, 6, 6, 6, 12, 12, 12};
  for (std::int64_t i = 0; i < 15; ++i) {
    const auto at = s.step(i);
    const auto k = static_cast<std::size_t>(i);
    EXPECT_EQ(at.number, numbers[k]) << i;
    EXPECT_EQ(at.round, rounds[k]) << i;
    EXPECT_EQ(at.first_together, firsts[k]) << i;
    EXPECT_EQ(at.last_together, k < 6 ? 6 : k < 12 ? 12 : 15) << i;
    EXPECT_EQ(s.examples(i, 0)[0], s.examples(i, 0)[1]);  // completions of one prompt
  }
  EXPECT_EQ(s.step(14).epochs_done, 1);
}

}  // namespace
}  // namespace dml
