// Every rule against an independent program in float64 (tools/make_rules_golden.py), on a matrix and a vector.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <vector>

#include "core/affinity.h"
#include "core/json.h"
#include "core/parallel.h"
#include "optim/newton_schulz.h"
#include "optim/optimizer.h"

namespace dml {
namespace {

/// One parameter with its state, as one rank holds it.
struct Tensor {
  Parameter parameter;
  std::vector<float> value, grad, state;

  Tensor(std::string name, std::vector<std::int64_t> shape, const Optimizer& optimizer)
      : parameter{std::move(name), 0, std::move(shape)} {
    parameter.decay = parameter.shape.size() == 2;
    value.resize(static_cast<std::size_t>(parameter.size())), grad = value;
    state.resize(static_cast<std::size_t>(optimizer.state().floats(parameter, parameter.size())));
  }
  OptimizerSlice slice() { return {value, grad, state, &parameter}; }
};

// As in tools/make_rules_golden.py.
void set_gradient(Tensor& p, int t, double salt) {
  for (std::size_t i = 0; i < p.value.size(); ++i) {
    const auto n = static_cast<double>(i);
    p.grad[i] = static_cast<float>(0.5 * (p.value[i] - std::cos(salt + 2 * n)) + 0.2 * std::sin(1 + n + 3 * t + salt));
  }
}

struct Trial {
  std::unique_ptr<Optimizer> optimizer;
  Tensor matrix, vector;

  explicit Trial(const Json& golden)
      : optimizer(make(golden)), matrix("layers.0.weight", {6, 4}, *optimizer), vector("norm.weight", {5}, *optimizer) {
    for (std::size_t i = 0; i < 24; ++i) matrix.value[i] = static_cast<float>(std::sin(1 + 3 * static_cast<double>(i)));
    for (std::size_t i = 0; i < 5; ++i) vector.value[i] = static_cast<float>(std::sin(2 + 3 * static_cast<double>(i)));
  }
  static std::unique_ptr<Optimizer> make(const Json& golden) {
    OptimizerSettings settings{0.1};
    settings.args = golden.at("optim_args");
    settings.target_modules = {"layers"};
    return optimizers().at(golden.at("optimizer").get<std::string>()).make(settings);
  }
  void step(int t) {
    set_gradient(matrix, t, 1);
    set_gradient(vector, t, 2);
    for (Tensor* p : {&matrix, &vector}) {
      const OptimizerSlice slice = p->slice();
      optimizer->step({&slice, 1}, {0.01, t - 1, 1});
    }
  }
  std::vector<float> values() const {
    std::vector<float> all = matrix.value;
    all.insert(all.end(), vector.value.begin(), vector.value.end());
    return all;
  }
};

/// The largest difference, relative to the largest weight.
double worst(const std::vector<float>& got, const Json& want) {
  double most = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    size = std::max(size, std::fabs(want[i].get<double>()));
    most = std::max(most, std::fabs(static_cast<double>(got[i]) - want[i].get<double>()));
  }
  return most / size;
}

TEST(Rules, TwoHundredStepsAreThoseOfAnIndependentProgram) {
  const Json golden = read_json(DML_SOURCE_DIR "/tests/golden/rules.json");
  for (auto& [name, want] : golden.items()) {
    Trial run(want);
    for (int t = 1; t <= 200; ++t) {
      run.step(t);
      if (auto at = want["after"].find(std::to_string(t)); at != want["after"].end()) {
        // A weight in float32 is rounded by 6e-8 of its size in every step.
        EXPECT_LT(worst(run.values(), *at), t == 200 ? 1e-6 : 5e-7) << name << " after step " << t;
      }
    }
    if (!want.contains("average")) continue;
    const std::vector<float> trained = run.values();
    const OptimizerSlice slices[] = {run.matrix.slice(), run.vector.slice()};
    run.optimizer->switch_to_average(slices);
    EXPECT_LT(worst(run.values(), want["average"]), 1e-5) << name;
    run.optimizer->switch_to_training_point(slices);
    EXPECT_EQ(run.values(), trained) << name << ": the training point comes back to the bit";
  }
}

// Published vectors: w = [[.5, −.25, 1], [.75, −1, .125]], g_t[i][j] = sin(1 + i + 2j + 3t), η = .01, λ = .1, three
// steps.
TEST(Rules, GiveThePublishedVectors) {
  struct Vector {
    const char *optimizer, *args;
    double w[6];
  };
  const Vector vectors[] = {
      {"adamw", "{}", {.511831826055, -.238247637890, .984288559774, .760377784027, -1.010505662072, .113052997648}},
      {"lion",
       R"({"beta2": 0.99})",
       {.508491509500, -.239260739750, .987012989000, .757742259250, -1.006993009000, .114635364875}},
      {"sgd",
       R"({"momentum": 0.9})",
       {.510642031795, -.243497555598, .976704516702, .762958506522, -1.006044886377, .116833236617}},
      {"sgd",
       R"({"momentum": 0.9, "nesterov": true})",
       {.514486786270, -.239369529376, .966284782485, .769076318686, -1.007750899610, .112031556462}},
      {"adafactor",
       "{}",
       {.505958887522, -.241153527818, .984597038759, .759325213290, -1.007678844442, .117932715262}},
      {"adafactor",
       R"({"relative_step": true, "scale_parameter": true})",
       {.504123362607, -.243875769052, .989328277315, .756451277765, -1.005311616644, .120107245294}},
      {"ademamix", "{}", {.511842408634, -.238239753753, .984278691372, .760387549029, -1.010516442762, .113044455666}},
      {"muon",
       R"({"adjust_lr_fn": "original"})",
       {.500831201045, -.243677445970, .990034671981, .753041520531, -1.004804299633, .125829076753}},
      {"muon", "{}", {.499308530923, -.247320100655, .994589100550, .749584505899, -.999705447927, .125042349370}},
      {"came_pytorch",
       "{}",
       {.641762552551, -.162656942686, .783850616904, .919526411212, -1.196900309114, .041897610798}},
      {"stable_adamw",
       R"({"betas": [0.9, 0.99], "eps": 1e-6})",
       {.511770815029, -.238293361373, .984417650051, .760346112804, -1.010468240165, .113106701790}}};
  for (const Vector& v : vectors) {
    OptimizerSettings settings{0.1};
    settings.args = Json::parse(v.args);
    auto optimizer = optimizers().at(v.optimizer).make(settings);
    Tensor p("layers.0.weight", {2, 3}, *optimizer);
    p.value = {.5f, -.25f, 1, .75f, -1, .125f};
    for (int t = 1; t <= 3; ++t) {
      for (std::size_t i = 0; i < 6; ++i)
        p.grad[i] =
            static_cast<float>(std::sin(1 + static_cast<double>(i / 3) + 2 * static_cast<double>(i % 3) + 3 * t));
      const OptimizerSlice slice = p.slice();
      optimizer->step({&slice, 1}, {0.01, t - 1, 1});
    }
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(p.value[i], v.w[i], 1e-6) << v.optimizer << " " << v.args << " " << i;
  }
}

TEST(Rules, ScheduleFreeGivesThePublishedVectors) {
  auto optimizer = optimizers().at("schedule_free_adamw").make({0.1});
  Tensor p("layers.0.weight", {2, 3}, *optimizer);
  p.value = {.5f, -.25f, 1, .75f, -1, .125f};
  const OptimizerSlice slice = p.slice();
  for (int t = 1; t <= 3; ++t) {
    for (std::size_t i = 0; i < 6; ++i)
      p.grad[i] = static_cast<float>(std::sin(1 + static_cast<double>(i / 3) + 2 * static_cast<double>(i % 3) + 3 * t));
    optimizer->step({&slice, 1}, {t == 1 ? 0.005 : 0.01, t - 1, 1});  // a warm-up of two steps
  }
  const double y[] = {.499835285656, -.248714438526, .997165638884, .749520402757, -.998807142441, .123858198320},
               x[] = {.499512388872, -.249306450585, .997674681136, .749117845476, -.998548613659, .124408795835};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(p.value[i], y[i], 2e-7) << i;
  optimizer->switch_to_average({&slice, 1});
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(p.value[i], x[i], 2e-7) << i;
}

TEST(Rules, NewtonSchulzGivesThePublishedMatrix) {
  std::vector<float> x, memory(static_cast<std::size_t>(newton_schulz_floats(2, 3)));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) x.push_back(static_cast<float>(std::sin(1 + i + 2 * j + 3)));
  newton_schulz({x.data(), 2, 3}, 5, memory.data());
  const double want[] = {-.206743114542, -.573811939703, .684323161502, -.541398892696, .763550275933, -.094099171053};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(x[i], want[i], 2e-6) << i;
}

// APOLLO's projection is ours, so its rule is checked by what follows from it.
TEST(Rules, ApolloTakesTheGradientsDirectionPerTensorAndPerChannel) {
  for (const char* name : {"apollo_mini", "apollo_adamw"}) {
    OptimizerSettings settings;
    settings.target_modules = {"all-linear"};
    settings.seed = 3;
    settings.args = {{"rank", 2}};
    auto optimizer = optimizers().at(name).make(settings);
    Tensor p("layers.0.weight", {6, 4}, *optimizer);
    set_gradient(p, 1, 1);
    const OptimizerSlice slice = p.slice();
    optimizer->step({&slice, 1}, {0.01, 0, 1});
    const bool by_row = name == std::string("apollo_adamw");
    for (std::size_t i = 0; i < 24; ++i) {
      const std::size_t first = by_row ? i / 4 * 4 : 0;
      EXPECT_NEAR(p.value[i] * p.grad[first], p.value[first] * p.grad[i], 1e-6) << name << " " << i;
      EXPECT_LT(p.value[i] * p.grad[i], 0) << name;
    }
    // The first step of Adam on the projection is ±1 an element over |R|: factors are finite and above zero. Later
    // steps may be no more than 1.01 times as long.
    double before = 0;
    for (float x : p.value) before += static_cast<double>(x) * x;
    std::vector<float> old = p.value;
    for (float& g : p.grad) g *= 100;
    optimizer->step({&slice, 1}, {0.01, 1, 1});
    double after = 0;
    for (std::size_t i = 0; i < 24; ++i) after += std::pow(static_cast<double>(p.value[i]) - old[i], 2);
    EXPECT_GT(after, 0);
    EXPECT_LT(std::sqrt(after), std::sqrt(before) * 1.01 * std::sqrt(1 - 0.999 * 0.999) / (1 - 0.81) * (1 - 0.9) /
                                    std::sqrt(1 - 0.999) * 1.001)
        << name;
  }
}

// APOLLO's formulas in double, with loops over everything. The projection is taken from the state: it is drawn by
// counted random numbers, of which other tests know.
struct SlowApollo {
  std::int64_t rows, cols, rank;
  bool per_channel;
  double scale, decay;
  std::vector<double> w, m, v;
  double norm = 0;

  void step(const std::vector<float>& grad, const float* basis, int t) {
    const bool right = rows >= cols;
    const std::int64_t channels = right ? rows : cols, inner = right ? cols : rows;
    auto g = [&](std::int64_t c, std::int64_t k) {
      return static_cast<double>(grad[static_cast<std::size_t>(right ? c * cols + k : k * cols + c)]);
    };
    std::vector<double> low(static_cast<std::size_t>(channels * rank)), n(low.size());
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t r = 0; r < rank; ++r)
        for (std::int64_t k = 0; k < inner; ++k)
          low[static_cast<std::size_t>(c * rank + r)] += g(c, k) * static_cast<double>(basis[r * inner + k]);
    m.resize(low.size()), v.resize(low.size());
    for (std::size_t i = 0; i < low.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * low[i], v[i] = 0.999 * v[i] + 0.001 * low[i] * low[i];
      n[i] = m[i] / (std::sqrt(v[i]) + 1e-6);
    }
    std::vector<double> factor(static_cast<std::size_t>(channels));
    for (std::int64_t c = 0; c < channels; ++c) {
      double a = 0, b = 0;
      for (std::int64_t i = per_channel ? c * rank : 0; i < (per_channel ? (c + 1) * rank : channels * rank); ++i)
        a += std::pow(n[static_cast<std::size_t>(i)], 2), b += std::pow(low[static_cast<std::size_t>(i)], 2);
      factor[static_cast<std::size_t>(c)] = std::sqrt(a) / (std::sqrt(b) + 1e-8);
    }
    std::vector<double> update(w.size());
    double now = 0;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t k = 0; k < inner; ++k) {
        const double u = g(c, k) * factor[static_cast<std::size_t>(c)];
        update[static_cast<std::size_t>(right ? c * cols + k : k * cols + c)] = u;
        now += u * u;
      }
    now = std::sqrt(now);
    const double limit = t > 1 ? std::max(now / (norm + 1e-8), 1.01) / 1.01 : 1;
    norm = now / limit;
    // Bias correction and scale are of the step, after the limiter.
    const double rate = 0.01 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)) * std::sqrt(scale) / limit;
    for (std::size_t k = 0; k < w.size(); ++k) w[k] -= rate * update[k], w[k] -= 0.01 * decay * w[k];
  }
};

TEST(Rules, ApolloFollowsItsFormulas) {
  for (const char* name : {"apollo_adamw", "apollo_mini"})
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{6, 4}, {3, 8}}) {
      const bool mini = name == std::string("apollo_mini");
      OptimizerSettings settings{0.1};
      settings.target_modules = {"all-linear"};
      if (!mini) settings.args = {{"rank", 2}};
      auto optimizer = optimizers().at(name).make(settings);
      Tensor p("layers.0.weight", {rows, cols}, *optimizer);
      SlowApollo slow{rows, cols, mini ? 1 : 2, !mini, mini ? 128.0 : 1.0, 0.1, {}, {}, {}};
      for (std::size_t i = 0; i < p.value.size(); ++i)
        slow.w.push_back(p.value[i] = std::sin(static_cast<float>(1 + 3 * i)));
      for (int t = 1; t <= 20; ++t) {
        set_gradient(p, t, 1);
        const OptimizerSlice slice = p.slice();
        optimizer->step({&slice, 1}, {0.01, t - 1, 1});
        slow.step(p.grad, p.state.data() + 2, t);
        for (std::size_t i = 0; i < slow.w.size(); ++i)
          ASSERT_NEAR(p.value[i], slow.w[i], 2e-5) << name << " " << rows << " step " << t;
      }
    }
}

double norm_of(const std::vector<float>& x) {
  double squares = 0;
  for (float each : x) squares += static_cast<double>(each) * each;
  return std::sqrt(squares);
}

// A step without a trained token, or whose gradient is not finite, is skipped: then number 1 is the first update. The
// state becomes that of number 0, the update differs by Adam's bias correction only.
TEST(Rules, TheFirstUpdateNeedNotBeStepZero) {
  const double later = std::sqrt(1 - 0.999 * 0.999) / (1 - 0.81) / (std::sqrt(1 - 0.999) / (1 - 0.9));
  for (const auto& [name, args, ratio] :
       std::vector<std::tuple<std::string, Json, double>>{{"galore_adamw", {{"rank", 2}}, later},
                                                          {"apollo_adamw", {{"rank", 2}}, later},
                                                          {"apollo_mini", Json::object(), later},
                                                          {"adagrad", {{"initial_accumulator_value", 0.5}}, 1}}) {
    OptimizerSettings settings{0.0};
    settings.target_modules = {"all-linear"};
    settings.args = args;
    auto optimizer = optimizers().at(name).make(settings);
    Tensor zero("layers.0.weight", {6, 4}, *optimizer), one = zero;
    for (Tensor* p : {&zero, &one}) {
      set_gradient(*p, 1, 1);
      const OptimizerSlice slice = p->slice();
      optimizer->step({&slice, 1}, {0.01, p == &one, 1});
    }
    EXPECT_EQ(std::memcmp(zero.state.data(), one.state.data(), zero.state.size() * sizeof(float)), 0) << name;
    EXPECT_GT(norm_of(zero.value), 1e-3) << name;
    for (std::size_t i = 0; i < zero.value.size(); ++i)
      EXPECT_NEAR(one.value[i], ratio * static_cast<double>(zero.value[i]), 1e-6) << name << " " << i;
  }
}

// An update of 0 is no measure for the norm of the next.
TEST(Rules, ApolloGoesOnAfterAGradientOfZero) {
  for (const char* name : {"apollo_adamw", "apollo_mini"}) {
    OptimizerSettings settings{0.0};
    settings.target_modules = {"all-linear"};
    auto optimizer = optimizers().at(name).make(settings);
    // The length of the last update, with a gradient at all steps but `without`.
    auto last_update = [&](std::int64_t steps, std::int64_t without) {
      Tensor p("layers.0.weight", {6, 4}, *optimizer);
      set_gradient(p, 1, 1);
      const std::vector<float> gradient = p.grad;
      for (std::int64_t t = 0; t < steps; ++t) {
        if (t == without) std::ranges::fill(p.grad, 0.0f);
        else p.grad = gradient;
        std::ranges::fill(p.value, 0.0f);
        const OptimizerSlice slice = p.slice();
        optimizer->step({&slice, 1}, {0.01, t, 1});
      }
      return norm_of(p.value);
    };
    const double usual = last_update(1, -1);
    EXPECT_GT(last_update(2, 0), usual / 2) << name;
    EXPECT_GT(last_update(3, 1), usual / 2) << name;
  }
}

// The same bits on any number of threads, and from saved state.
TEST(Rules, DoNotDependOnThreadsNorOnAStop) {
  for (const auto& row : optimizers().rows()) {
    OptimizerSettings settings{0.1};
    settings.target_modules = {"all-linear"};
    settings.args = Json::object();
    std::vector<float> reference;
    for (int count : {1, 3}) {
      set_threads(count);
      auto optimizer = row.make(settings);
      Tensor p("layers.0.weight", {150, 70}, *optimizer);
      for (std::size_t i = 0; i < p.value.size(); ++i) p.value[i] = std::sin(static_cast<float>(i));
      for (int t = 1; t <= 4; ++t) {
        if (t == 3) optimizer = row.make(settings);  // nothing but the state goes on
        set_gradient(p, t, 1);
        const OptimizerSlice slice = p.slice();
        optimizer->step({&slice, 1}, {0.01, t - 1, 0.5});
      }
      if (reference.empty()) reference = p.value;
      EXPECT_EQ(p.value, reference) << row.name;
      for (float x : p.value) ASSERT_TRUE(std::isfinite(x)) << row.name;
    }
  }
  set_threads(available_cores());
}

}  // namespace
}  // namespace dml
