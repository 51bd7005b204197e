// y = x Wᵀ (+ b) (+ s (x ⊙ mask) Aᵀ Bᵀ), with DoRA times m / ‖W + s B A‖: against a slow double reference, and
// gradients by differences.
#include "nn/linear.h"
#include "core/affinity.h"

#include "core/bf16.h"
#include "fixture.h"

namespace dml {
namespace {

using namespace fixture;

constexpr std::int64_t kTokens = Documents::kTokens, kIn = 12, kOut = 10, kRank = 3;

struct Kind {
  std::string name;
  bool trained_weight = false, bias = false, lora = false, dora = false;
  float dropout = 0;
};
void PrintTo(const Kind& k, std::ostream* out) { *out << k.name; }
std::string name_of(const testing::TestParamInfo<Kind>& kind) { return kind.param.name; }

class LinearKinds : public testing::TestWithParam<Kind> {
 protected:
  LinearKinds() {
    const Kind& k = GetParam();
    Mat w = values.random(kOut, kIn, 0.4f);
    linear.frozen = kernels::weight_of(w);
    if (k.trained_weight) linear.weight = trained.add("weight", {kOut, kIn});
    if (k.bias) linear.bias = trained.add("bias", {kOut});
    if (k.lora) {
      LoraAdapter lora;
      lora.a = trained.add("lora_A", {kRank, kIn});
      lora.b = trained.add("lora_B", {kOut, kRank});
      if (k.dora) lora.magnitude = trained.add("magnitude", {kOut}, 0.2f, 1);
      lora.scale = 1.5f;
      lora.dropout = k.dropout;
      lora.stream = 4;
      linear.lora = lora;
    }
    trained.bind(11);
    x = values.random(kTokens, kIn);
    dy = values.random(kTokens, kOut);
  }

  Pass pass() { return {documents, arena, {}, {}, true, 99, micro_batch}; }
  void forward(Mat y, Write mode = Write::set) {
    Pass p = pass();
    linear.forward(x, y, mode, saved, p);
  }
  double scalar() {
    Mat y{scratch.data(), kTokens, kOut};
    forward(y);
    return weighed(y, dy);
  }

  // The same in double, the dropout mask taken from its definition.
  std::vector<double> reference() const {
    Mat w = linear.weight ? linear.weight.value()
                          : Mat{static_cast<float*>(const_cast<void*>(linear.frozen.data)), kOut, kIn};
    std::vector<double> y(kTokens * kOut);
    auto at = [](Mat m, std::int64_t r, std::int64_t c) { return static_cast<double>(m.row(r)[c]); };
    auto input = [&](std::int64_t t, std::int64_t i) {
      if (!linear.lora || linear.lora->dropout == 0) return at(x, t, i);
      Random mask(99, Purpose::dropout, micro_batch, linear.lora->stream);
      bool keep = mask.uniform(static_cast<std::uint64_t>(t * kIn + i)) >= linear.lora->dropout;
      return keep ? at(x, t, i) / (1 - static_cast<double>(linear.lora->dropout)) : 0;
    };
    for (std::int64_t t = 0; t < kTokens; ++t)
      for (std::int64_t n = 0; n < kOut; ++n) {
        double& out = y[static_cast<std::size_t>(t * kOut + n)];
        for (std::int64_t i = 0; i < kIn; ++i) out += at(x, t, i) * at(w, n, i);
        if (linear.lora) {
          const LoraAdapter& l = *linear.lora;
          Mat a = l.a.value(), b = l.b.value();
          double norm = 0;
          for (std::int64_t i = 0; i < kIn; ++i) {
            double change = 0;
            for (std::int64_t r = 0; r < kRank; ++r) change += static_cast<double>(l.scale) * at(b, n, r) * at(a, r, i);
            out += change * input(t, i);
            norm += (at(w, n, i) + change) * (at(w, n, i) + change);
          }
          if (l.magnitude) out *= static_cast<double>(l.magnitude.value().data[n]) / std::sqrt(norm);
        }
        if (linear.bias) out += static_cast<double>(linear.bias.value().data[n]);
      }
    return y;
  }

  Values values{5};
  Trained trained;
  Linear linear;
  Documents all;
  PackedBatch documents = all.view();
  Arena arena{1 << 20}, kept{1 << 20};
  std::uint64_t micro_batch = 0;
  Mat x, dy;
  Linear::Saved saved;
  std::vector<float> scratch = std::vector<float>(kTokens * kOut);

  void SetUp() override { saved = linear.plan(kTokens, {}, kept); }
};

TEST_P(LinearKinds, ValueIsThatOfTheSlowReference) {
  auto want = reference();
  Mat y = values.random(kTokens, kOut);
  std::vector<float> before(y.data, y.data + y.size());
  forward(y, Write::add);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(y.data[i], before[i] + want[i], 2e-5) << i;
  forward(y, Write::set);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(y.data[i], want[i], 2e-5) << i;
}

TEST_P(LinearKinds, GradientsAreTheDerivatives) {
  if (GetParam().dora) return;  // its norm counts as a constant: below
  scalar();
  Mat dx = values.zeros(kTokens, kIn);
  Pass p = pass();
  linear.backward(dy, x, saved, dx, Write::set, p);
  auto f = [&] { return scalar(); };
  expect_derivatives(x.flat(), dx.flat(), f, "x");
  expect_parameter_derivatives(trained, f);
}

TEST_P(LinearKinds, BackwardAddsWhereItIsToldTo) {
  scalar();
  Mat once = values.zeros(kTokens, kIn), twice = values.random(kTokens, kIn);
  std::vector<float> before(twice.data, twice.data + twice.size());
  Pass p = pass();
  linear.backward(dy, x, saved, once, Write::set, p);
  auto gradient = trained.gradient();
  linear.backward(dy, x, saved, twice, Write::add, p);
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(twice.data[i], before[i] + once.data[i], 1e-5);
  for (std::size_t i = 0; i < gradient.size(); ++i) ASSERT_NEAR(trained.gradient()[i], 2 * gradient[i], 1e-4);
}

TEST_P(LinearKinds, WithoutDxTheParametersGetTheSameGradient) {
  scalar();
  Mat dx = values.zeros(kTokens, kIn);
  Pass p = pass();
  linear.backward(dy, x, saved, dx, Write::set, p);
  auto gradient = trained.gradient();
  trained.zero();
  linear.backward(dy, x, saved, {}, Write::set, p);
  EXPECT_EQ(trained.gradient(), gradient);
}

TEST_P(LinearKinds, WithoutGradientsWantedOnlyDxComes) {
  scalar();
  Mat dx = values.zeros(kTokens, kIn), again = values.zeros(kTokens, kIn);
  Pass p = pass();
  linear.backward(dy, x, saved, dx, Write::set, p);
  auto gradient = trained.gradient();
  trained.unit().grad = nullptr;
  linear.backward(dy, x, saved, again, Write::set, p);
  EXPECT_EQ(trained.gradient(), gradient);
  for (std::int64_t i = 0; i < dx.size(); ++i) ASSERT_EQ(dx.data[i], again.data[i]);
}

TEST_P(LinearKinds, TheFrozenWeightIsNotTouched) {
  std::vector<float> before(static_cast<const float*>(linear.frozen.data),
                            static_cast<const float*>(linear.frozen.data) + kIn * kOut);
  scalar();
  Mat dx = values.zeros(kTokens, kIn);
  Pass p = pass();
  linear.backward(dy, x, saved, dx, Write::set, p);
  for (std::size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(static_cast<const float*>(linear.frozen.data)[i], before[i]);
  bool trains = GetParam().trained_weight || GetParam().bias || GetParam().lora;
  EXPECT_EQ(linear.trains(), trains);
}

TEST_P(LinearKinds, ScratchIsGivenBack) {
  scalar();
  Mat dx = values.zeros(kTokens, kIn);
  Pass p = pass();
  linear.backward(dy, x, saved, dx, Write::set, p);
  EXPECT_EQ(arena.used(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, LinearKinds,
                         testing::Values(Kind{"frozen"}, Kind{"full", true}, Kind{"full_bias", true, true},
                                         Kind{"frozen_with_bias", false, true}, Kind{"lora", false, false, true},
                                         Kind{"lora_bias", false, true, true},
                                         Kind{"lora_dropout", false, false, true, false, 0.4f},
                                         Kind{"dora", false, false, true, true},
                                         Kind{"dora_dropout", false, true, true, true, 0.4f}),
                         name_of);

// DoRA as in PEFT: y = m ⊙ (plain / norm), norm a constant in the gradient. So the derivative is measured with the
// norms of the unmoved weights: the reference divides by them whatever A and B do.
class Dora : public LinearKinds {
 protected:
  double with_fixed_norms(const std::vector<double>& norms) {
    Mat w{static_cast<float*>(const_cast<void*>(linear.frozen.data)), kOut, kIn};
    const LoraAdapter& l = *linear.lora;
    Mat a = l.a.value(), b = l.b.value();
    double sum = 0;
    for (std::int64_t t = 0; t < kTokens; ++t)
      for (std::int64_t n = 0; n < kOut; ++n) {
        double y = 0;
        for (std::int64_t i = 0; i < kIn; ++i) {
          double v = static_cast<double>(w.row(n)[i]);
          for (std::int64_t r = 0; r < kRank; ++r) v += static_cast<double>(l.scale) * b.row(n)[r] * a.row(r)[i];
          y += v * x.row(t)[i];
        }
        sum += y * l.magnitude.value().data[n] / norms[static_cast<std::size_t>(n)] * dy.row(t)[n];
      }
    return sum;
  }
};

TEST_P(Dora, GradientsAreTheDerivativesWithTheNormsHeld) {
  scalar();
  std::vector<double> norms(saved.norms.data, saved.norms.data + kOut);
  Mat dx = values.zeros(kTokens, kIn);
  Pass p = pass();
  linear.backward(dy, x, saved, dx, Write::set, p);
  auto f = [&] { return with_fixed_norms(norms); };
  expect_derivatives(x.flat(), dx.flat(), f, "x");
  expect_parameter_derivatives(trained, f);
}

INSTANTIATE_TEST_SUITE_P(One, Dora, testing::Values(Kind{"dora", false, false, true, true}), name_of);

// The masks themselves.
class Dropout : public LinearKinds {};

TEST_P(Dropout, MasksDifferBetweenMicroBatchesAndModulesAndComeBack) {
  auto output = [&](std::uint64_t batch, std::uint32_t stream) {
    micro_batch = batch;
    linear.lora->stream = stream;
    Mat y = values.zeros(kTokens, kOut);
    forward(y);
    return std::vector<float>(y.data, y.data + y.size());
  };
  auto first = output(0, 4);
  EXPECT_NE(first, output(1, 4));
  EXPECT_NE(first, output(0, 5));
  EXPECT_EQ(first, output(0, 4));
}

TEST_P(Dropout, IsOffOutsideTraining) {
  Mat y = values.zeros(kTokens, kOut);
  Pass p{documents, arena, {}, {}, false, 99, 0};
  linear.forward(x, y, Write::set, saved, p);
  linear.lora->dropout = 0;
  auto want = reference();
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(y.data[i], want[i], 2e-5);
}

INSTANTIATE_TEST_SUITE_P(One, Dropout, testing::Values(Kind{"lora_dropout", false, false, true, false, 0.4f}), name_of);

// Layers of one input, of several widths and storages, some with biases, some with adapters on some of the rows.
class Beside : public testing::Test {
 protected:
  static constexpr std::int64_t kWide = 200, kRows = 11;

  Beside() {
    for (const std::int64_t out : {300, 40, 67}) {
      Linear& l = linears.emplace_back();
      const Mat w = values.random(out, kWide, 0.4f);
      l.frozen = kernels::weight_of(w);
      for (std::int64_t i = 0; i < w.size(); ++i) halves.push_back(to_bf16(w.data[i]));
    }
    linears[1].frozen = {DType::bf16, 40, kWide, halves.data() + 300 * kWide};
    linears[2].frozen_bias = values.random(1, 67).data;
    for (Linear& l : linears) {
      LoraAdapter& own = adapters.emplace_back();
      const std::string name = std::to_string(adapters.size());
      own.a = trained.add(name + "A", {kRank, kWide});
      own.b = trained.add(name + "B", {l.out(), kRank});
      if (adapters.size() == 1) own.bias = trained.add(name + "bias", {l.out()});
      if (adapters.size() == 3) own.magnitude = trained.add(name + "magnitude", {l.out()}, 0.2f, 1);
      own.scale = 1.5f;
    }
    trained.bind(3);
    for (std::size_t i = 0; i < linears.size(); ++i) linears[i].adapters = {nullptr, &adapters[i]};
  }
  void TearDown() override { set_threads(available_cores()); }

  std::vector<float> of(std::int64_t rows, kernels::RowMethod how, bool together) {
    const AdapterRows groups[] = {{0, rows / 2, 1}, {rows / 2, rows - rows / 2, -1}};
    Pass pass{documents, arena, {}, {}};
    pass.rows = how, pass.generates = true, pass.adapters = groups;
    std::vector<float> out(static_cast<std::size_t>(rows * (300 + 40 + 67)), 7.f);
    Linear::Saved none[3];
    std::vector<FusedLinear> layers;
    float* at = out.data();
    for (std::size_t i = 0; i < linears.size(); at += rows * linears[i].out(), ++i)
      layers.push_back({&linears[i], {at, rows, linears[i].out()}, &none[i]});
    if (together) forward_fused(layers, x.slice(0, rows), pass);
    else
      for (const FusedLinear& l : layers) l.linear->forward(x.slice(0, rows), l.y, Write::set, *l.saved, pass);
    return out;
  }

  Values values{8};
  Trained trained;
  std::deque<Linear> linears;
  std::deque<LoraAdapter> adapters;
  std::vector<bf16> halves;
  Documents all;
  PackedBatch documents = all.view();
  Arena arena{1 << 20};
  Mat x = values.random(kRows, kWide);
};

TEST_F(Beside, OneProductHasTheBitsOfThree) {
  for (const auto how : {kernels::RowMethod::dots, kernels::RowMethod::packed})
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{2}, kRows}) {
      set_threads(1);
      const std::vector<float> want = of(rows, how, false);
      for (const int count : {1, 2, 3}) {
        set_threads(count);
        EXPECT_EQ(of(rows, how, true), want) << rows << " rows, " << count << " threads";
      }
    }
}

}  // namespace
}  // namespace dml
