// Every kernel against the same mathematics in double: values, gradients by finite differences along random directions,
// and the same bits from any number of threads, on every instruction set this machine has.
#include "kernel_cases.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "core/affinity.h"
#include "core/parallel.h"
#include "core/virtual_threads.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {
namespace {

using namespace cases;

std::vector<Case> all_cases() {
  std::vector<Case> list;
  for (auto [t, n, k] : {std::array<std::int64_t, 3>{1, 40, 33},
                         {3, 65, 130},
                         {8, 96, 64},
                         {9, 130, 65},
                         {65, 300, 70},
                         {130, 64, 96},
                         {700, 24, 16},
                         {20, 17, 2100}})
    list.push_back(linear(t, n, k));
  for (std::int64_t r : {1, 4, 8, 16, 17, 64, 128}) list.push_back(lora(65, 130, 96, r));
  for (std::int64_t t : {1, 3, 130, 1100}) list.push_back(lora(t, 300, 64, 8));
  list.push_back(lora(3, 65, 33, 16));
  list.push_back(lora(70, 1024, 1024, 4));  // rows that fall into one set of a cache
  list.push_back(lora(2100, 40, 24, 8));    // longer ranges of tokens
  for (auto [t, d] : {std::array<std::int64_t, 2>{1, 64}, {3, 65}, {65, 130}, {130, 768}, {2000, 8}}) {
    list.push_back(rms(t, d, d == 65 ? 1.f : 0.f));
    list.push_back(layer(t, d));
    list.push_back(layer(t, d, 1));
  }
  for (auto act : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::relu2,
                   Activation::quick_gelu, Activation::tanh}) {
    list.push_back(gated(act, 3, 65));
    list.push_back(gated(act, 130, 96));
    list.push_back(plain(act, 3, 130));
  }
  for (auto [t, f] : {std::array<std::int64_t, 2>{1, 3}, {3, 130}, {200, 96}}) list.push_back(xielu_case(t, f));
  for (auto [t, heads, dim, turned] :
       {std::array<std::int64_t, 4>{1, 1, 8, 8}, {65, 3, 64, 64}, {130, 2, 80, 32}, {3, 4, 96, 96}})
    for (bool interleaved : {false, true}) list.push_back(rotary(t, heads, dim, turned, interleaved));
  using Lengths = std::vector<std::int64_t>;
  for (const auto& lengths : {Lengths{1}, Lengths{3}, Lengths{65}, Lengths{130}, Lengths{1, 70, 1, 3, 64, 20}})
    for (std::int64_t dim : {8, 64}) {
      list.push_back(attend({.heads = 2, .kv_heads = 2, .head_dim = dim}, lengths));
      list.push_back(attend({.heads = 4, .kv_heads = 1, .head_dim = dim, .softcap = 2, .window = 20}, lengths));
    }
  for (std::int64_t dim : {80, 96, 128})
    list.push_back(attend({.heads = 6, .kv_heads = 2, .head_dim = dim}, {1, 66, 100}));
  list.push_back(attend({.heads = 16, .kv_heads = 16, .head_dim = 8, .softcap = 3}, {300}));
  list.push_back(attend({.heads = 16, .kv_heads = 8, .head_dim = 8, .window = 90}, {300}));
  list.push_back(attend({.heads = 1, .kv_heads = 1, .head_dim = 16, .window = 100}, {400, 1, 30}));
  list.push_back(attend({.heads = 2, .kv_heads = 1, .head_dim = 72}, {700}));
  list.push_back(attend({.heads = 2, .kv_heads = 1, .head_dim = 24, .softcap = 3, .window = 300}, {20, 600}));
  list.push_back(attend({.heads = 4, .kv_heads = 2, .head_dim = 24, .slopes = kSlopes}, {1, 66, 300}));
  list.push_back(attend({.heads = 4, .kv_heads = 4, .head_dim = 16, .window = 40, .slopes = kSlopes}, {150}));
  for (auto [n, d, v] : {std::array<std::int64_t, 3>{1, 33, 70}, {3, 64, 1000}, {65, 24, 301}, {600, 8, 130}}) {
    list.push_back(loss(n, d, v));
    list.push_back(loss(n, d, v, 3.f));
    list.push_back(loss(n, d, v, d == 64 ? 3.f : 0.f, true, true));
  }
  return list;
}

struct Blocks {
  std::vector<std::vector<float>> data;
  Mats mats;
  explicit Blocks(const std::vector<Shape>& shapes) {
    for (const Shape& s : shapes) data.emplace_back(static_cast<std::size_t>(s.size()));
    for (std::size_t i = 0; i < shapes.size(); ++i) mats.push_back({data[i].data(), shapes[i].rows, shapes[i].cols});
  }
  void randomize(const std::vector<Shape>& shapes, std::uint64_t seed) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      Random random(seed, Purpose::noise, i);
      for (std::size_t j = 0; j < data[i].size(); ++j)
        data[i][j] = shapes[i].shift + shapes[i].spread * random.normal(j);
    }
  }
  void fill(float value) {
    for (auto& d : data) std::fill(d.begin(), d.end(), value);
  }
};

std::vector<Values> widened(const Blocks& blocks) {
  std::vector<Values> out;
  for (const auto& d : blocks.data) out.emplace_back(d.begin(), d.end());
  return out;
}

double largest(const Values& v) {
  double m = 0;
  for (double x : v) m = std::max(m, std::abs(x));
  return m;
}

struct Trial {
  Blocks in, out, dout, din;
};

bool is_loss(const Case& c) { return c.name.starts_with("cross_entropy"); }
bool is_attention(const Case& c) { return c.name.starts_with("attention"); }

Trial run(const Case& c) {
  Arena scratch(std::size_t{256} << 20);
  Trial r{Blocks(c.inputs), Blocks(c.outputs), Blocks(c.outputs), Blocks(c.inputs)};
  r.in.randomize(c.inputs, 1);
  if (c.name.starts_with("lora")) r.out.fill(0);  // lora_up adds
  else r.out.fill(std::nanf(""));
  c.forward(r.in.mats, r.out.mats, scratch);
  r.dout.randomize(c.outputs, 2);
  if (is_loss(c)) r.dout.fill(1);
  if (is_attention(c)) std::fill(r.dout.data[1].begin(), r.dout.data[1].end(), 0.f);  // lse is not differentiated
  c.backward(r.in.mats, r.out.mats, r.dout.mats, r.din.mats, scratch);
  return r;
}

double objective(const Case& c, const std::vector<Values>& in, const std::vector<Values>& weights) {
  double total = 0;
  auto out = c.reference(in);
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::size_t j = 0; j < out[i].size(); ++j) total += out[i][j] * weights[i][j];
  return total;
}

class KernelCase : public testing::TestWithParam<std::tuple<Isa, Case>> {
 protected:
  void SetUp() override {
    if (!use_isa(std::get<0>(GetParam()))) GTEST_SKIP() << "this machine lacks it";
  }
  void TearDown() override {
    use_isa(best_isa());
    set_threads(available_cores());
  }
};

TEST_P(KernelCase, GivesTheValuesOfTheReference) {
  const Case& c = std::get<1>(GetParam());
  Trial r = run(c);
  auto expected = c.reference(widened(r.in));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double scale = std::max(1e-3, largest(expected[i]));
    for (std::size_t j = 0; j < expected[i].size(); ++j)
      ASSERT_NEAR(r.out.data[i][j], expected[i][j], c.tolerance * scale) << "output " << i << " element " << j;
  }
}

TEST_P(KernelCase, GivesTheGradientOfTheReference) {
  const Case& c = std::get<1>(GetParam());
  Trial r = run(c);
  auto in = widened(r.in), weights = widened(r.dout);
  for (std::size_t i = 0; i < in.size(); ++i)
    for (std::uint64_t direction = 0; direction < 2; ++direction) {
      Random random(77, Purpose::noise, i, static_cast<std::uint32_t>(direction));
      Values step(in[i].size());
      // One direction over everything, one over few elements, so that a wrong corner cannot hide in the sum.
      for (std::size_t j = 0; j < step.size(); ++j)
        step[j] =
            direction == 0 || random.word(2 * step.size() + j) % 8 == 0 ? static_cast<double>(random.normal(j)) : 0;
      constexpr double h = 1e-5;
      auto moved = in;
      for (std::size_t j = 0; j < step.size(); ++j) moved[i][j] = in[i][j] + h * step[j];
      double up = objective(c, moved, weights);
      for (std::size_t j = 0; j < step.size(); ++j) moved[i][j] = in[i][j] - h * step[j];
      double slope = (up - objective(c, moved, weights)) / (2 * h);
      double got = 0, size = 0;
      for (std::size_t j = 0; j < step.size(); ++j) {
        double part = static_cast<double>(r.din.data[i][j]) * step[j];
        got += part;
        size += part * part;
      }
      EXPECT_NEAR(got, slope, 1e-4 * std::sqrt(size) + 1e-4) << "input " << i;
    }
}

TEST_P(KernelCase, GivesTheSameBitsForAnyNumberOfThreads) {
  const Case& c = std::get<1>(GetParam());
  set_threads(1);
  Trial one = run(c);
  for (int count : {2, 3, 4, 64}) {
    std::optional<VirtualThreads> more_than_cores;
    if (count > 4) more_than_cores.emplace(count);
    else set_threads(count);
    Trial many = run(c);
    for (std::size_t i = 0; i < one.out.data.size(); ++i)
      EXPECT_EQ(0, std::memcmp(one.out.data[i].data(), many.out.data[i].data(), one.out.data[i].size() * 4));
    for (std::size_t i = 0; i < one.din.data.size(); ++i)
      EXPECT_EQ(0, std::memcmp(one.din.data[i].data(), many.din.data[i].data(), one.din.data[i].size() * 4));
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelCase,
                         testing::Combine(testing::Values(Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16,
                                                          Isa::amx),
                                          testing::ValuesIn(all_cases())),
                         [](const auto& test) {
                           std::string name = fmt::format("{}_{}", static_cast<int>(std::get<0>(test.param)),
                                                          std::get<1>(test.param).name);
                           for (char& ch : name)
                             if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
                           return name;
                         });

// Attention in the precision of bf16, for the instruction sets that have such products. Values are compared with the
// reference in double, gradients with those in float32, which have been compared with finite differences above.
class AttentionInBf16 : public testing::TestWithParam<std::tuple<Isa, std::size_t>> {
 protected:
  static std::vector<Case> cases() {
    return {attend({.heads = 2, .kv_heads = 2, .head_dim = 64}, {512, 300}),
            attend({.heads = 4, .kv_heads = 2, .head_dim = 32}, {100, 257, 385}),
            attend({.heads = 2, .kv_heads = 1, .head_dim = 72}, {701}),
            attend({.heads = 1, .kv_heads = 1, .head_dim = 40, .window = 100}, {600, 30}),
            attend({.heads = 2, .kv_heads = 1, .head_dim = 24, .softcap = 3, .window = 300}, {20, 620})};
  }
  void SetUp() override {
    if (!use_isa(std::get<0>(GetParam()))) GTEST_SKIP() << "this machine lacks the instructions";
    use_precision(DType::bf16);
  }
  void TearDown() override {
    use_isa(best_isa());
    use_precision(DType::f32);
    set_threads(available_cores());
  }
  static Case tested() { return cases()[std::get<1>(GetParam())]; }
};

// The largest difference as a part of the largest value, and the cosine between the two.
std::pair<double, double> likeness(const std::vector<float>& got, const Values& want) {
  double off = 0, dot = 0, a2 = 0, b2 = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double a = static_cast<double>(got[i]), b = want[i];
    off = std::max(off, std::isfinite(a) ? std::abs(a - b) : 1e30);
    dot += a * b, a2 += a * a, b2 += b * b;
  }
  return {off / largest(want), dot / std::sqrt(a2 * b2)};
}

TEST_P(AttentionInBf16, IsCloseToTheReferenceAndItsGradientsToThoseInFloat32) {
  const Case c = tested();
  const Trial rounded = run(c);
  use_precision(DType::f32);
  const Trial exact = run(c);
  EXPECT_NE(rounded.out.data[0], exact.out.data[0]);
  const auto expected = c.reference(widened(rounded.in));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto [off, cosine] = likeness(rounded.out.data[i], expected[i]);
    EXPECT_LE(off, 0.02) << "output " << i;
    EXPECT_GE(cosine, 0.9999) << "output " << i;
  }
  const std::vector<Values> gradients = widened(exact.din);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto [off, cosine] = likeness(rounded.din.data[i], gradients[i]);
    EXPECT_LE(off, 0.02) << "input " << i;
    EXPECT_GE(cosine, 0.999) << "input " << i;
  }
}

TEST_P(AttentionInBf16, HasTheSameBitsForAnyNumberOfThreads) {
  const Case c = tested();
  set_threads(1);
  const Trial one = run(c);
  for (int count : {3, 64}) {
    std::optional<VirtualThreads> more_than_cores;
    if (count > 4) more_than_cores.emplace(count);
    else set_threads(count);
    const Trial many = run(c);
    EXPECT_EQ(one.out.data, many.out.data) << count;
    EXPECT_EQ(one.din.data, many.din.data) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionInBf16,
                         testing::Combine(testing::Values(Isa::avx512_bf16, Isa::amx),
                                          testing::Range<std::size_t>(0, 5)));

}  // namespace
}  // namespace dml::kernels
