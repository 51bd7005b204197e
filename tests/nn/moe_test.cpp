// The mixture of experts against a slow one in double precision that runs every expert on every token, its gradients by
// differences, and what must not show: how many rows are worked on at a time, and what is computed again.
#include "nn/moe.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "core/error.h"
#include "core/parallel.h"
#include "fixture.h"
#include "kernels/stored.h"

namespace dml::fixture {
namespace {

constexpr std::int64_t kTokens = Documents::kTokens, kWidth = 8, kFfn = 12, kShared = 6;

struct Mix {
  std::string name;
  kernels::RoutingRule rule{6, 2};
  bool lora = false, biases = false, gated_shared = false, shared = false;
  float correction = 0;    // how far they are spread
  bool lora_bias = false;  // and no dropout
  float jitter = 0;
  RouterLosses losses{};
};
void PrintTo(const Mix& m, std::ostream* out) { *out << m.name; }
std::string name_of(const testing::TestParamInfo<Mix>& mix) { return mix.param.name; }

class Mixtures : public testing::TestWithParam<Mix> {
 protected:
  Mixtures() {
    const Mix& m = GetParam();
    moe.router.rule = m.rule;
    moe.router.gate = linear("router", m.rule.experts, kWidth, m.biases, false);
    if (m.correction > 0) moe.router.rule.correction = values.random(1, m.rule.experts, m.correction).data;
    for (std::int64_t e = 0; e < m.rule.experts; ++e) {
      const std::string name = fmt::format("experts.{}.", e);
      moe.experts.push_back({.gate = linear(name + "gate", kFfn, kWidth, m.biases, m.lora),
                             .up = linear(name + "up", kFfn, kWidth, m.biases, m.lora),
                             .down = linear(name + "down", kWidth, kFfn, m.biases, m.lora)});
    }
    if (m.shared)
      moe.shared = {.gate = linear("shared.gate", kShared, kWidth, false, m.lora),
                    .up = linear("shared.up", kShared, kWidth, false, m.lora),
                    .down = linear("shared.down", kWidth, kShared, false, m.lora)};
    if (m.gated_shared) moe.shared_gate = linear("shared_gate", 1, kWidth, false, false);
    moe.jitter = m.jitter;
    trained.bind(5);
  }
  Linear linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias, bool lora) {
    Linear l;
    if (lora) {
      l.frozen = kernels::weight_of(values.random(out, in, 0.5f));
      LoraAdapter adapter;
      adapter.a = trained.add(name + ".lora_A", {2, in}, 0.5f);
      adapter.b = trained.add(name + ".lora_B", {out, 2}, 0.5f);
      adapter.scale = 0.5f;
      if (GetParam().lora_bias) adapter.bias = trained.add(name + ".lora_B.bias", {out}, 0.3f);
      else adapter.dropout = 0.25f;
      adapter.stream = stream++;
      l.lora = adapter;
    } else {
      l.weight = trained.add(name, {out, in}, 0.5f);
    }
    if (bias) l.bias = trained.add(name + ".bias", {out}, 0.2f);
    return l;
  }

  struct Result {
    std::vector<float> y, dx, gradient;
    double loss = 0;
    bool operator==(const Result&) const = default;
  };
  Result run(ConstMat dy, SavePolicy policy, bool backward = true) {
    kept = Arena(4 << 20);
    trained.zero();
    RouterSums sums(GetParam().losses, GetParam().rule.experts, kept);
    Pass p{documents, arena, {}, {}, true, 99, 3};
    p.routers = &sums;
    auto saved = moe.plan(x.rows, policy, kept);
    Mat y = values.zeros(x.rows, kWidth), dx = values.zeros(x.rows, kWidth);
    moe.forward(x, y, Write::set, saved, p);
    Result r;
    r.loss = sums.close(3);
    if (backward) moe.backward(dy, x, saved, dx, p);
    r.y.assign(y.data, y.data + y.size()), r.dx.assign(dx.data, dx.data + dx.size()), r.gradient = trained.gradient();
    return r;
  }

  Values values{11};
  Trained trained;
  Moe moe;
  std::uint32_t stream = 0;
  Documents all;
  PackedBatch documents = all.view();
  Arena arena{16 << 20}, kept;
  Mat x = values.random(kTokens, kWidth);
  // Enough of them for some experts to have packed products, others dots.
  void take_many_tokens() { x = values.random(60, kWidth); }
};

// Of no more than some experts, all of which see every token.
class Slow {
 public:
  Slow(const Moe& moe, ConstMat x) : moe_(moe), x_(x) {}

  std::vector<double> token(std::int64_t t) const {
    std::vector<double> in(x_.row(t), x_.row(t) + x_.cols), y(in.size());
    const auto& rule = moe_.router.rule;
    std::vector<double> logits = product(moe_.router.gate, in), score = logits;
    double sum = 0;
    for (double l : logits) sum += std::exp(l);
    for (double& s : score) s = rule.sigmoid ? 1 / (1 + std::exp(-s)) : std::exp(s) / sum;
    std::vector<std::size_t> chosen = choice(score);
    double total = 0;
    for (std::size_t e : chosen) total += score[e];
    for (std::size_t e : chosen) {
      const double weight = rule.scale * score[e] / (rule.normalize ? total : 1);
      add(mlp(moe_.experts[e], in), weight, y);
    }
    if (moe_.shared.up) {
      const double open = moe_.shared_gate ? 1 / (1 + std::exp(-product(moe_.shared_gate, in)[0])) : 1;
      add(mlp(moe_.shared, in), open, y);
    }
    return y;
  }

 private:
  static std::vector<double> product(const Linear& l, const std::vector<double>& x) {
    std::vector<double> y = times(l.weight ? ConstMat(l.weight.value()) : float_values(l.frozen), x);
    for (std::size_t r = 0; r < y.size() && l.bias; ++r) y[r] += static_cast<double>(l.bias.value().data[r]);
    if (!l.lora) return y;
    const std::vector<double> added = times(l.lora->b.value(), times(l.lora->a.value(), x));
    for (std::size_t r = 0; r < y.size(); ++r) {
      const double bias = l.lora->bias ? static_cast<double>(l.lora->bias.value().data[r]) : 0;
      y[r] += static_cast<double>(l.lora->scale) * (added[r] + bias);
    }
    return y;
  }
  static ConstMat float_values(const kernels::Weight& w) { return {static_cast<const float*>(w.data), w.rows, w.cols}; }
  static std::vector<double> times(ConstMat w, const std::vector<double>& x) {
    std::vector<double> y(static_cast<std::size_t>(w.rows));
    for (std::int64_t r = 0; r < w.rows; ++r)
      for (std::size_t c = 0; c < x.size(); ++c)
        y[static_cast<std::size_t>(r)] += static_cast<double>(w.row(r)[c]) * x[c];
    return y;
  }
  static std::vector<double> mlp(const Mlp& m, const std::vector<double>& x) {
    std::vector<double> gate = product(m.gate, x), h = product(m.up, x);
    for (std::size_t i = 0; i < h.size(); ++i) h[i] *= gate[i] / (1 + std::exp(-gate[i]));
    return product(m.down, h);
  }
  static void add(const std::vector<double>& x, double a, std::vector<double>& y) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += a * x[i];
  }
  // By sorting all of them, groups by the sum of their two best first.
  std::vector<std::size_t> choice(std::vector<double> score) const {
    const auto& rule = moe_.router.rule;
    const auto size = static_cast<std::size_t>(rule.experts / rule.groups);
    for (std::size_t e = 0; rule.correction && e < score.size(); ++e)
      score[e] += static_cast<double>(rule.correction[e]);
    std::vector<std::pair<double, std::size_t>> groups, best;
    for (std::size_t g = 0; g < static_cast<std::size_t>(rule.groups); ++g) {
      std::vector<double> in(&score[g * size], &score[g * size] + size);
      std::ranges::sort(in, std::greater());
      groups.emplace_back(-(in[0] + in[1]), g);
    }
    std::ranges::sort(groups);
    for (std::size_t i = 0; i < static_cast<std::size_t>(rule.chosen_groups); ++i)
      for (std::size_t e = groups[i].second * size; e < (groups[i].second + 1) * size; ++e)
        best.emplace_back(-score[e], e);
    std::ranges::sort(best);
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rule.chosen); ++i) out.push_back(best[i].second);
    return out;
  }

  const Moe& moe_;
  ConstMat x_;
};

TEST_P(Mixtures, AreTheSlowSumOverExperts) {
  if ((GetParam().lora && !GetParam().lora_bias) || GetParam().jitter > 0)
    GTEST_SKIP() << "dropout and jitter have no place in the slow one";
  take_many_tokens();
  Result got = run({}, {}, false);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    std::vector<double> want = Slow(moe, x).token(t);
    for (std::size_t c = 0; c < want.size(); ++c)
      ASSERT_NEAR(got.y[static_cast<std::size_t>(t * kWidth) + c], want[c], 2e-5) << "token " << t;
  }
}

TEST_P(Mixtures, HaveTheDerivativesOfTheirOutputs) {
  const int before = threads();
  set_threads(1);  // thousands of tiny passes
  Mat dy = values.random(kTokens, kWidth);
  Result got = run(dy, {});
  auto f = [&] {
    Result r = run(dy, {}, false);
    return weighed({r.y.data(), kTokens, kWidth}, dy) + r.loss;
  };
  expect_derivatives(x.flat(), got.dx, f, "x", 8e-3);
  for (const Parameter& p : trained.unit().parameters) {
    std::span<float> value(trained.unit().value.floats() + p.offset, static_cast<std::size_t>(p.size()));
    auto gradient = std::span(got.gradient).subspan(static_cast<std::size_t>(p.offset), value.size());
    expect_derivatives(value, gradient, f, p.name, 8e-3);
  }
  set_threads(before);
}

TEST_P(Mixtures, ComputedAgainAndOnOtherThreadsHaveTheSameBits) {
  take_many_tokens();
  Mat dy = values.random(x.rows, kWidth);
  Result want = run(dy, {});
  EXPECT_EQ(run(dy, {.mlp = false}), want);
  const int before = threads();
  for (int count : {1, 3}) {
    set_threads(count);
    EXPECT_EQ(run(dy, {}), want) << count;
  }
  set_threads(before);
}

TEST_P(Mixtures, WithRoundedActivationsHaveTheSameValueAndNearlyTheSameGradient) {
  take_many_tokens();
  const Mat dy = values.random(x.rows, kWidth);
  const Result exact = run(dy, {}), rounded = run(dy, {.intermediates = DType::bf16});
  EXPECT_EQ(rounded.y, exact.y);
  EXPECT_LT(distance(rounded.dx, exact.dx), 1.0 / 64);
  EXPECT_LT(distance(rounded.gradient, exact.gradient), 1.0 / 64);
  EXPECT_NE(rounded.gradient, exact.gradient);
}

TEST_P(Mixtures, AreMeasuredByADryRun) {
  take_many_tokens();
  std::size_t scratch = 0, planned = 0;
  for (bool dry : {true, false}) {
    Arena work = dry ? Arena::measuring() : Arena(16 << 20), held = dry ? Arena::measuring() : Arena(4 << 20);
    std::optional<DryRun> nothing;
    if (dry) nothing.emplace();
    Pass p{documents, work, {}, {}, true, 99, 3};
    auto saved = moe.plan(x.rows, {}, held);
    Mat y = values.zeros(x.rows, kWidth), dx = values.zeros(x.rows, kWidth);
    moe.forward(x, y, Write::set, saved, p);
    moe.backward(y, x, saved, dx, p);
    EXPECT_EQ(work.used(), 0u);
    if (dry) {
      scratch = work.high_water(), planned = held.high_water();
      continue;
    }
    EXPECT_LE(work.high_water(), scratch);
    EXPECT_EQ(held.high_water(), planned);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Mixtures,
    testing::Values(
        Mix{"softmax"}, Mix{"softmax_plain", {.experts = 6, .chosen = 3, .normalize = false}},
        Mix{.name = "adapters", .lora = true, .shared = true},
        Mix{.name = "adapters_with_biases", .lora = true, .biases = true, .shared = true, .lora_bias = true},
        Mix{.name = "biases", .biases = true}, Mix{.name = "shared_with_gate", .gated_shared = true, .shared = true},
        Mix{.name = "groups",
            .rule = {.experts = 6, .chosen = 2, .sigmoid = true, .scale = 2.5f, .groups = 3, .chosen_groups = 2},
            .shared = true,
            .correction = 0.3f},
        Mix{.name = "groups_below_zero",  // an open expert may lie below the scores of closed groups
            .rule = {.experts = 8, .chosen = 4, .sigmoid = true, .groups = 4, .chosen_groups = 2},
            .correction = 3},
        Mix{.name = "jitter", .jitter = 0.1f}, Mix{.name = "losses", .losses = {0.7, 0.05}}),
    name_of);

// Memory in whole pages that can be closed: who reads it then ends the program.
class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : size_(bytes), data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    DML_CHECK(data_ != MAP_FAILED);
  }
  ~Pages() { munmap(data_, size_); }
  Pages(const Pages&) = delete;
  void* data() const { return data_; }
  void open(bool open) const { DML_CHECK(mprotect(data_, size_, open ? PROT_READ : PROT_NONE) == 0); }

 private:
  std::size_t size_;
  void* data_;
};

// One token of a mixture that is being decoded: the weights of experts that it is not sent to are not read, however
// stored.
TEST(Experts, WeightsOfTheOthersAreNotRead) {
  constexpr std::int64_t kExperts = 8, kIn = kernels::kWholeBlocks, kOut = kernels::kWholeBlocks;
  for (const kernels::Kind& kind : kernels::all_kinds()) {
    SCOPED_TRACE(testing::PrintToString(kind));
    Values values(5);
    Moe moe;
    moe.router.rule = {kExperts, 3};
    moe.router.gate.frozen = kernels::weight_of(values.random(kExperts, kIn, 0.5f));
    std::deque<Pages> pages;
    auto linear = [&](std::int64_t out, std::int64_t in) {
      const kernels::Stored stored(kind, out, in, pages.size());
      const std::size_t scales = stored.scales.size() * sizeof(float), powers = stored.powers.size();
      const auto& own = pages.emplace_back(stored.data.size() + scales + powers);
      std::memcpy(own.data(), stored.data.data(), stored.data.size());
      auto* behind = static_cast<std::byte*>(own.data()) + stored.data.size();
      if (scales > 0) std::memcpy(behind, stored.scales.data(), scales);
      if (powers > 0) std::memcpy(behind + scales, stored.powers.data(), powers);
      Linear l;
      l.frozen = stored.weight;
      l.frozen.data = own.data(), l.frozen.scales = reinterpret_cast<const float*>(behind);
      if (powers > 0) l.frozen.scale_codes = reinterpret_cast<const std::uint8_t*>(behind + scales);
      return l;
    };
    for (std::int64_t e = 0; e < kExperts; ++e)
      moe.experts.push_back({.gate = linear(kOut, kIn), .up = linear(kOut, kIn), .down = linear(kIn, kOut)});
    Documents all;
    const PackedBatch documents = all.view();
    for (kernels::RowMethod how :
         {kernels::RowMethod::dots, kernels::RowMethod::by_count, kernels::RowMethod::packed}) {
      Arena arena(4 << 20), kept(1 << 20);
      Pass pass{documents, arena, {}, {}};
      pass.rows = how, pass.generates = how != kernels::RowMethod::by_count;
      Mat x = values.random(1, kIn), first = values.zeros(1, kIn), second = values.zeros(1, kIn);
      const Moe::Saved saved = moe.plan(1, {}, kept);
      moe.forward(x, first, Write::set, saved, pass);
      const std::span<const std::int32_t> chosen = saved.router.routing.experts;
      for (std::int64_t e = 0; e < kExperts; ++e)
        for (std::size_t i = 0; i < 3; ++i)
          pages[static_cast<std::size_t>(3 * e) + i].open(std::ranges::find(chosen, e) != chosen.end());
      moe.forward(x, second, Write::set, saved, pass);
      EXPECT_EQ(std::vector(first.data, first.data + kIn), std::vector(second.data, second.data + kIn));
      for (const Pages& p : pages) p.open(true);
    }
  }
}

// Two sequences that are answered together, each with its own adapter on every expert: the rows that an expert is sent
// are of both, and each has the bits that it has with its adapter alone.
TEST(Experts, RowsOfSeveralSequencesHaveTheirOwnAdapters) {
  constexpr std::int64_t kExperts = 4, kIn = 16, kOut = 24;
  Values values(7);
  Moe moe;
  moe.router.rule = {kExperts, 2};
  moe.router.gate.frozen = kernels::weight_of(values.random(kExperts, kIn, 0.5f));
  auto linear = [&](std::int64_t out, std::int64_t in) {
    Linear l;
    l.frozen = kernels::weight_of(values.random(out, in, 0.5f));
    return l;
  };
  for (std::int64_t e = 0; e < kExperts; ++e)
    moe.experts.push_back({.gate = linear(kOut, kIn), .up = linear(kOut, kIn), .down = linear(kIn, kOut)});
  Trained trained;
  std::deque<LoraAdapter> adapters[2];
  auto each_linear = [&](Moe& m, auto f) {
    std::size_t i = 0;
    for (Mlp& e : m.experts)
      for (Linear* l : {&e.gate, &e.up, &e.down}) f(*l, i++);
  };
  for (auto& own : adapters)
    each_linear(moe, [&](Linear& l, std::size_t i) {
      const std::string name = fmt::format("{}.{}.", &own - adapters, i);
      own.push_back({.a = trained.add(name + "a", {2, l.in()}),
                     .b = trained.add(name + "b", {l.out(), 2}),
                     .bias = trained.add(name + "bias", {l.out()}),
                     .scale = 0.5f});
    });
  trained.bind(8);
  Documents all;
  const PackedBatch documents = all.view();
  Mat x = values.random(kTokens, kIn);
  auto run = [&](Moe& m, std::span<const AdapterRows> rows) {
    Arena arena(4 << 20), kept(1 << 20);
    Pass pass{documents, arena, {}, {}};
    pass.generates = true, pass.rows = kernels::RowMethod::dots, pass.adapters = rows;
    Mat y = values.zeros(kTokens, kIn);
    m.forward(x, y, Write::set, m.plan(kTokens, {}, kept), pass);
    return y;
  };
  std::vector<Mat> want;
  for (auto& own : adapters) {
    Moe one = moe;
    each_linear(one, [&](Linear& l, std::size_t i) { l.lora = own[i]; });
    want.push_back(run(one, {}));
  }
  want.push_back(run(moe, {}));  // no adapter at all
  each_linear(moe, [&](Linear& l, std::size_t i) { l.adapters = {&adapters[0][i], &adapters[1][i]}; });
  const AdapterRows rows[] = {{0, 2, 1}, {2, 1, -1}, {3, 4, 0}};
  const Mat got = run(moe, rows);
  for (const AdapterRows& g : rows)
    for (std::int64_t t = g.first; t < g.first + g.count; ++t) {
      const Mat& alone = want[g.adapter < 0 ? 2 : static_cast<std::size_t>(g.adapter)];
      EXPECT_EQ(std::vector(got.row(t), got.row(t) + kIn), std::vector(alone.row(t), alone.row(t) + kIn)) << t;
    }
}

// The loss of the routers is checked against its formula here: the others see its derivative only.
TEST(RouterLosses, AreThoseOfTheSharesAndProbabilities) {
  Values values(3);
  Arena arena(1 << 20);
  constexpr std::int64_t kExperts = 5, kChosen = 2;
  const kernels::RoutingRule rule{kExperts, kChosen};
  RouterSums sums({0.5, 0.25}, kExperts, arena);
  std::vector<double> share(kExperts), probability(kExperts);
  double square = 0;
  for (int layer = 0; layer < 2; ++layer) {
    Mat logits = values.random(kTokens, kExperts);
    kernels::Routing routing{values.zeros(kTokens, kExperts), values.zeros(kTokens, kChosen),
                             arena.take<std::int32_t>(kTokens * kChosen)};
    kernels::route(rule, logits, routing);
    sums.add(logits, routing, arena);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      double sum = 0;
      std::vector<std::pair<double, std::size_t>> order;
      for (std::size_t e = 0; e < kExperts; ++e) {
        sum += std::exp(static_cast<double>(logits.row(t)[e]));
        order.emplace_back(-logits.row(t)[e], e);
      }
      std::ranges::sort(order);
      for (std::size_t e = 0; e < kExperts; ++e)
        probability[e] += std::exp(static_cast<double>(logits.row(t)[e])) / sum / (2 * kTokens);
      for (std::size_t i = 0; i < kChosen; ++i) share[order[i].second] += 1.0 / (2 * kTokens);
      square += std::log(sum) * std::log(sum) / (2 * kTokens);
    }
  }
  double balance = 0;
  for (std::size_t e = 0; e < kExperts; ++e) balance += kExperts * share[e] * probability[e];
  EXPECT_NEAR(sums.close(10), 10 * (0.5 * balance + 0.25 * square), 1e-5);
}

TEST(Routing, GivesEqualScoresToTheLowerIndex) {
  Values values(3);
  std::vector<std::int32_t> experts(3 * 2);
  Mat logits = values.zeros(3, 4);
  logits.row(1)[3] = 1;
  logits.row(2)[0] = -1;
  kernels::route({4, 2}, logits, {values.zeros(3, 4), values.zeros(3, 2), experts});
  EXPECT_EQ(experts, (std::vector<std::int32_t>{0, 1, 0, 3, 1, 2}));
  logits.row(0)[2] = NAN;  // any choice, but within bounds
  kernels::route({4, 2}, logits, {values.zeros(3, 4), values.zeros(3, 2), experts});
  for (std::int32_t e : experts) EXPECT_TRUE(e >= 0 && e < 4);
}

}  // namespace
}  // namespace dml::fixture
