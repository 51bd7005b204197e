// A tiny decoder layer of every shape that the families need: gradients of all its parameters and of its input by
// differences, with all rows going on or some, and the paths that must give the same bits.
#include "nn/decoder_layer.h"

#include <fmt/format.h>

#include "fixture.h"

namespace dml {
namespace {

using namespace fixture;

constexpr std::int64_t kTokens = Documents::kTokens, kWidth = 8, kFfn = 10, kHeads = 4, kKvHeads = 2, kHeadDim = 4;

struct Kind {
  std::string name;
  bool pre = true, post = false, parallel = false, shared_norm = false, gated = true, head_norms = false,
       whole_norms = false, own_head_norms = false;
  bool layer_norm = false, lora = false, biases = false;
  bool fused = false, norm_after_rope = false, interleaved = false, rope = true;
  float residual_scale = 1, clip = 0;
  std::int64_t window = 0;
  float softcap = 0;
  kernels::Activation activation = kernels::Activation::silu;
};
void PrintTo(const Kind& k, std::ostream* out) { *out << k.name; }
std::string name_of(const testing::TestParamInfo<Kind>& kind) { return kind.param.name; }

class LayerKinds : public testing::TestWithParam<Kind> {
 protected:
  static constexpr float constants[] = {0.5f, -1e-6f};
  LayerKinds() {
    const Kind& k = GetParam();
    auto norm = [&](const std::string& name, std::int64_t width) {
      Norm n;
      n.layer_norm = k.layer_norm;
      n.eps = 1e-5f;
      n.weight = trained.add(name, {width}, 0.2f, 1);
      if (k.layer_norm) n.bias = trained.add(name + ".bias", {width});
      return n;
    };
    auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      Linear l;
      if (k.lora) {
        l.frozen = kernels::weight_of(values.random(out, in, 0.4f));
        LoraAdapter adapter;
        adapter.a = trained.add(name + ".lora_A", {2, in});
        adapter.b = trained.add(name + ".lora_B", {out, 2});
        adapter.dropout = 0.25f;
        adapter.stream = stream++;
        l.lora = adapter;
      } else {
        l.weight = trained.add(name, {out, in}, 0.4f);
      }
      if (k.biases) l.bias = trained.add(name + ".bias", {out});
      return l;
    };
    if (k.pre) layer.attention_norm = norm("attention_norm", kWidth);
    if (k.pre && !k.shared_norm) layer.mlp_norm = norm("mlp_norm", kWidth);
    if (k.post) {
      layer.attention_post_norm = norm("attention_post_norm", kWidth);
      layer.mlp_post_norm = norm("mlp_post_norm", kWidth);
    }
    layer.parallel = k.parallel;
    layer.residual_scale = k.residual_scale;
    Attention& a = layer.attention;
    a.shape = {kHeads, kKvHeads, kHeadDim, 0.5f, k.softcap, k.window};
    if (k.fused) {
      a.qkv = linear("qkv", a.query_width() + 2 * a.key_width(), kWidth);
    } else {
      a.q = linear("q", a.query_width(), kWidth);
      a.k = linear("k", a.key_width(), kWidth);
      a.v = linear("v", a.key_width(), kWidth);
    }
    a.use_rope = k.rope;
    a.norm_after_rope = k.norm_after_rope;
    a.clip = k.clip;
    a.o = linear("o", kWidth, a.query_width());
    a.norm_whole = k.whole_norms;
    if (k.head_norms || k.whole_norms) {
      a.q_norm = norm("q_norm", k.whole_norms ? a.query_width() : kHeadDim);
      a.k_norm = norm("k_norm", k.whole_norms ? a.key_width() : kHeadDim);
    }
    for (std::int64_t h = 0; k.own_head_norms && h < kHeads; ++h) {
      a.q_norms.push_back(norm(fmt::format("q_norms.{}", h), kHeadDim));
      a.q_norms.back().layer_norm = true;
      if (h >= kKvHeads) continue;
      a.k_norms.push_back(norm(fmt::format("k_norms.{}", h), kHeadDim));
      a.k_norms.back().layer_norm = true;
    }
    layer.mlp.activation = k.activation;
    if (k.gated) layer.mlp.gate = linear("gate", kFfn, kWidth);
    layer.mlp.up = linear("up", kFfn, kWidth);
    layer.mlp.down = linear("down", kWidth, kFfn);
    if (k.activation == kernels::Activation::xielu) {
      layer.mlp.xielu.alpha_p = trained.add("alpha_p", {1});
      layer.mlp.xielu.alpha_n = trained.add("alpha_n", {1});
      layer.mlp.xielu.beta = constants, layer.mlp.xielu.eps = constants + 1;
    }
    trained.bind(21);

    x = values.random(kTokens, kWidth);
    cos = values.zeros(kTokens, kHeadDim / 2);
    sin = values.zeros(kTokens, kHeadDim / 2);
    for (std::int64_t p = 0; p < kTokens; ++p)
      for (std::int64_t j = 0; j < kHeadDim / 2; ++j) {
        double angle = static_cast<double>(p) * std::pow(100.0, -2.0 * static_cast<double>(j) / kHeadDim);
        cos.row(p)[j] = static_cast<float>(std::cos(angle));
        sin.row(p)[j] = static_cast<float>(std::sin(angle));
      }
  }

  Pass pass(bool training = true) {
    return {documents, arena, {{cos, sin, GetParam().interleaved}, all.positions}, {}, training, 99, 3};
  }
  std::int64_t height(std::span<const std::int32_t> rows) const {
    return rows.empty() ? kTokens : static_cast<std::int64_t>(rows.size());
  }

  struct Result {
    std::vector<float> y, dx, gradient;
    bool operator==(const Result&) const = default;
  };
  Result run(std::span<const std::int32_t> rows, ConstMat dy, SavePolicy policy, bool in_place = false) {
    kept = Arena(1 << 20);
    trained.zero();
    Pass p = pass();
    auto saved = layer.plan(kTokens, height(rows), policy, kept);
    Mat y = values.zeros(height(rows), kWidth), d = values.zeros(height(rows), kWidth);
    layer.forward(x, rows, y, saved, p);
    std::copy(dy.data, dy.data + dy.size(), d.data);
    Mat dx = in_place ? d : values.zeros(kTokens, kWidth);
    layer.backward(d, x, rows, saved, dx, p);
    return {{y.data, y.data + y.size()}, {dx.data, dx.data + dx.size()}, trained.gradient()};
  }
  double scalar(std::span<const std::int32_t> rows, ConstMat dy) {
    kept = Arena(1 << 20);
    Pass p = pass();
    auto saved = layer.plan(kTokens, height(rows), {}, kept);
    Mat y{forwarded.data(), height(rows), kWidth};
    layer.forward(x, rows, y, saved, p);
    return weighed(y, dy);
  }
  void expect_gradients(std::span<const std::int32_t> rows) {
    Mat dy = values.random(height(rows), kWidth);
    Result got = run(rows, dy, {});
    auto f = [&] { return scalar(rows, dy); };
    expect_derivatives(x.flat(), got.dx, f, "x");
    expect_parameter_derivatives(trained, f);
  }

  // All rows at once, without dropout.
  Mat whole() {
    kept = Arena(1 << 20);
    Pass p = pass(false);
    auto saved = layer.plan(kTokens, kTokens, {}, kept);
    Mat y = values.zeros(kTokens, kWidth);
    layer.forward(x, {}, y, saved, p);
    return y;
  }
  KvCache cache_of(std::int64_t rows) {
    return KvCache(1, layer.attention.shape.kv_heads, layer.attention.shape.head_dim, rows);
  }
  // These rows after what the caches hold, each sequence's next; `ends` of them, or all, come out and are those of
  // `y`.
  void expect_cached(const Mat& y, const std::vector<std::int32_t>& rows, std::vector<SequenceRows> sequences,
                     const std::vector<std::int32_t>& ends = {}) {
    Mat h = values.zeros(std::ssize(rows), kWidth), top = ends.empty() ? h : values.zeros(std::ssize(ends), kWidth);
    std::vector<std::int32_t> positions, out;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(x.row(rows[i]), kWidth, h.row(static_cast<std::int64_t>(i)));
      positions.push_back(all.positions[static_cast<std::size_t>(rows[i])]);
    }
    for (std::int32_t end : ends) {
      std::copy_n(h.row(end), kWidth, top.row(std::ssize(out)));
      out.push_back(rows[static_cast<std::size_t>(end)]);
    }
    if (ends.empty()) out = rows;
    PackedBatch batch{{}, {}, positions, {}};
    Pass p{batch, arena, {{cos, sin, GetParam().interleaved}, positions}, {}};
    p.generates = true;
    p.rows = std::ssize(rows) > std::ssize(sequences) ? kernels::RowMethod::packed : kernels::RowMethod::dots;
    layer.forward_cached(h, sequences, ends.empty() ? nullptr : &ends, 0, top, p);
    for (auto& s : sequences) s.cache->advance(s.count);
    for (std::size_t i = 0; i < out.size(); ++i)
      for (std::int64_t c = 0; c < kWidth; ++c)
        ASSERT_NEAR(top.row(static_cast<std::int64_t>(i))[c], y.row(out[i])[c], 2e-5) << "token " << out[i];
    EXPECT_EQ(arena.used(), 0u);
  }

  Values values{8};
  Trained trained;
  DecoderLayer layer;
  Documents all;
  PackedBatch documents = all.view();
  Arena arena{1 << 20}, kept{1 << 20};
  Mat x, cos, sin;
  std::uint32_t stream = 0;
  std::vector<float> forwarded = std::vector<float>(kTokens * kWidth);
  std::vector<std::int32_t> picked{1, 3, 6};
};

TEST_P(LayerKinds, GradientsAreTheDerivatives) { expect_gradients({}); }

TEST_P(LayerKinds, GradientsAreTheDerivativesWhenSomeRowsAreOutput) {
  if (layer.parallel) return;  // it outputs all rows
  expect_gradients(picked);
}

TEST_P(LayerKinds, PickedRowsAreThoseOfTheWhole) {
  if (layer.parallel || GetParam().lora) return;  // dropout addresses the rows that are there
  Mat dy = values.zeros(kTokens, kWidth);
  auto whole = run({}, dy, {}), some = run(picked, dy.slice(0, 3), {});
  for (std::size_t i = 0; i < picked.size(); ++i)
    for (std::size_t c = 0; c < kWidth; ++c)
      ASSERT_NEAR(some.y[i * kWidth + c], whole.y[static_cast<std::size_t>(picked[i]) * kWidth + c], 1e-5);
}

TEST_P(LayerKinds, KeepingTheMlpOrNotGivesTheSameBits) {
  Mat dy = values.random(kTokens, kWidth);
  EXPECT_EQ(run({}, dy, {}), run({}, dy, {.mlp = false}));
  if (layer.parallel) return;
  EXPECT_EQ(run(picked, dy.slice(0, 3), {}), run(picked, dy.slice(0, 3), {.mlp = false}));
}

// bfloat16 has eight bits: what was rounded is off by 2⁻⁹ at most, what is computed from several such values by little
// more.
TEST_P(LayerKinds, RoundedActivationsGiveTheSameValueAndNearlyTheSameGradient) {
  for (bool some : {false, true}) {
    if (some && layer.parallel) continue;
    std::span<const std::int32_t> rows = some ? std::span<const std::int32_t>(picked) : std::span<const std::int32_t>{};
    Mat dy = values.random(height(rows), kWidth);
    const Result exact = run(rows, dy, {});
    for (SavePolicy policy : {kRounded, SavePolicy{.intermediates = DType::bf16}}) {
      const Result rounded = run(rows, dy, policy);
      EXPECT_EQ(rounded.y, exact.y);
      EXPECT_LT(distance(rounded.dx, exact.dx), 1.0 / 64);
      EXPECT_LT(distance(rounded.gradient, exact.gradient), 1.0 / 64);
      EXPECT_NE(rounded.gradient, exact.gradient);
      policy.mlp = false;
      EXPECT_EQ(run(rows, dy, policy).y, exact.y);
    }
  }
}

TEST_P(LayerKinds, TheGradientMayBeUpdatedInPlace) {
  Mat dy = values.random(kTokens, kWidth);
  EXPECT_EQ(run({}, dy, {}), run({}, dy, {}, true));
}

TEST_P(LayerKinds, TheLowestLayerNeedsNoDx) {
  Mat dy = values.random(kTokens, kWidth), d = values.zeros(kTokens, kWidth);
  auto want = run({}, dy, {});
  kept = Arena(1 << 20);
  trained.zero();
  Pass p = pass();
  auto saved = layer.plan(kTokens, kTokens, {}, kept);
  Mat y = values.zeros(kTokens, kWidth);
  layer.forward(x, {}, y, saved, p);
  std::copy(dy.data, dy.data + dy.size(), d.data);
  layer.backward(d, x, {}, saved, {}, p);
  EXPECT_EQ(trained.gradient(), want.gradient);
}

TEST_P(LayerKinds, DocumentsDoNotSeeEachOther) {
  Mat dy = values.zeros(kTokens, kWidth);
  auto before = run({}, dy, {}).y;
  for (std::int64_t c = 0; c < kWidth; ++c) x.row(5)[c] += 1;  // second token of the second document
  auto after = run({}, dy, {}).y;
  for (std::size_t t = 0; t < kTokens; ++t) {
    bool same = std::equal(before.begin() + static_cast<std::ptrdiff_t>(t * kWidth),
                           before.begin() + static_cast<std::ptrdiff_t>((t + 1) * kWidth),
                           after.begin() + static_cast<std::ptrdiff_t>(t * kWidth));
    EXPECT_EQ(same, t < 5) << "token " << t;
  }
}

TEST_P(LayerKinds, GeneratingRowByRowGivesTheWholeForward) {
  // Both documents as sequences: the first two tokens at once, the others one each a call, beside each other.
  const Mat y = whole();
  KvCache first = cache_of(4), second = cache_of(3);
  expect_cached(y, {0, 1, 4, 5}, {{&first, 0, 2}, {&second, 2, 2}});
  expect_cached(y, {2, 6}, {{&first, 0, 1}, {&second, 1, 1}});
  expect_cached(y, {3}, {{&first, 0, 1}});
  EXPECT_EQ(first.length(), 4);
}

TEST_P(LayerKinds, TheLastRowsAloneAreThoseOfTheWholeForward) {
  // The first document but for its last token and two tokens of the second; then what is left of both.
  const Mat y = whole();
  KvCache first = cache_of(4), second = cache_of(3);
  expect_cached(y, {0, 1, 2, 4, 5}, {{&first, 0, 3}, {&second, 3, 2}}, {2, 4});
  expect_cached(y, {3, 6}, {{&first, 0, 1}, {&second, 1, 1}}, {0, 1});
}

TEST_P(LayerKinds, FewRowsBehindFullCachesAreTheWhole) {
  // One token, then the other three of the document in one call.
  const Mat y = whole();
  KvCache cache = cache_of(4);
  expect_cached(y, {0}, {{&cache, 0, 1}});
  expect_cached(y, {1, 2, 3}, {{&cache, 0, 3}});
}

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  auto add = [&](const std::string& name, auto&& change) {
    Kind k;
    k.name = name;
    change(k);
    all.push_back(k);
  };
  add("llama", [](Kind&) {});
  add("lora_with_dropout", [](Kind& k) { k.lora = true; });
  add("biases", [](Kind& k) { k.biases = true; });
  add("sandwich", [](Kind& k) { k.post = true, k.softcap = 3, k.activation = kernels::Activation::gelu_tanh; });
  add("post_only", [](Kind& k) { k.pre = false, k.post = true, k.whole_norms = true; });
  add("head_norms", [](Kind& k) { k.head_norms = true; });
  add("own_head_norms", [](Kind& k) { k.own_head_norms = true; });
  add("window", [](Kind& k) { k.window = 2; });
  add("no_gate",
      [](Kind& k) { k.gated = false, k.layer_norm = true, k.biases = true, k.activation = kernels::Activation::gelu; });
  add("parallel", [](Kind& k) { k.parallel = true, k.layer_norm = true; });
  add("parallel_one_norm", [](Kind& k) { k.parallel = true, k.shared_norm = true, k.layer_norm = true; });
  add("fused_by_head", [](Kind& k) { k.fused = k.biases = k.head_norms = true; });
  add("fused_by_head_lora", [](Kind& k) { k.fused = k.lora = k.parallel = true; });
  add("norms_behind_rope", [](Kind& k) { k.norm_after_rope = k.head_norms = true; });
  add("clip", [](Kind& k) { k.clip = 2.1f; });
  add("clip_whole_norms", [](Kind& k) { k.clip = 1.9f, k.whole_norms = true; });
  add("clip_fused", [](Kind& k) { k.clip = 2.2f, k.fused = true, k.rope = false; });
  add("interleaved", [](Kind& k) { k.interleaved = true; });
  add("no_rope", [](Kind& k) { k.rope = false; });
  add("scaled_residuals", [](Kind& k) { k.residual_scale = 0.6f; });
  add("scaled_sandwich", [](Kind& k) { k.residual_scale = 0.6f, k.post = true; });
  add("scaled_parallel", [](Kind& k) { k.residual_scale = 0.6f, k.parallel = true; });
  add("xielu", [](Kind& k) { k.gated = false, k.activation = kernels::Activation::xielu; });
  add("relu2", [](Kind& k) { k.gated = false, k.activation = kernels::Activation::relu2; });
  add("parallel_lora", [](Kind& k) { k.parallel = true, k.shared_norm = true, k.lora = true; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, LayerKinds, testing::ValuesIn(kinds()), name_of);

}  // namespace
}  // namespace dml
