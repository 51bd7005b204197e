// The MLP works on some of its rows at a time; that it does must not show.
#include "nn/mlp.h"

#include "fixture.h"

namespace dml::fixture {
namespace {

constexpr std::int64_t kTokens = 1000, kHalf = 512, kWidth = 8, kFfn = 6144;  // 1000 rows: parts of 512 and 488

class MlpInParts : public testing::Test {
 protected:
  MlpInParts() {
    auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      Linear l;
      l.frozen = kernels::weight_of(values.random(out, in, 0.4f));
      LoraAdapter adapter;
      adapter.a = trained.add(name + ".lora_A", {2, in});
      adapter.b = trained.add(name + ".lora_B", {out, 2});
      adapter.magnitude = trained.add(name + ".magnitude", {out}, 0.2f, 1);
      adapter.dropout = 0.25f;
      l.lora = adapter;
      return l;
    };
    mlp.gate = linear("gate", kFfn, kWidth);
    mlp.up = linear("up", kFfn, kWidth);
    mlp.down = linear("down", kWidth, kFfn);
    trained.bind(3);
  }

  struct Result {
    std::vector<float> y, dx, gradient;
    bool operator==(const Result&) const = default;
  };
  // Rows cut by the caller at `cut`, each part as a call of its own.
  Result run(std::int64_t cut, SavePolicy policy) {
    trained.zero();
    Mat y = values.zeros(kTokens, kWidth), dx = values.zeros(kTokens, kWidth);
    for (auto [first, count] : {std::pair{std::int64_t{0}, cut}, {cut, kTokens - cut}}) {
      if (count == 0) continue;
      Arena kept(128 << 20);
      Pass pass{documents, arena, {}, {}, true, 99, 3, first};
      auto saved = mlp.plan(count, policy, kept);
      mlp.forward(x.slice(first, count), y.slice(first, count), Write::set, saved, pass);
      mlp.backward(dy.slice(first, count), x.slice(first, count), saved, dx.slice(first, count), pass);
    }
    return {{y.data, y.data + y.size()}, {dx.data, dx.data + dx.size()}, trained.gradient()};
  }

  Values values{8};
  Trained trained;
  Mlp mlp;
  Documents all;
  PackedBatch documents = all.view();
  Arena arena{128 << 20};
  Mat x = values.random(kTokens, kWidth), dy = values.random(kTokens, kWidth);
};

TEST_F(MlpInParts, AreTheSameAsTwoCalls) {
  EXPECT_EQ(run(kTokens, {}), run(kHalf, {}));
  EXPECT_EQ(run(kTokens, {}), run(kTokens, {.mlp = false}));
  EXPECT_EQ(run(kTokens, kRounded), run(kHalf, kRounded));
}

TEST_F(MlpInParts, TakeScratchForOnePartAlone) {
  Pass pass{documents, arena, {}, {}, true, 99, 3};
  Arena kept(128 << 20);
  auto saved = mlp.plan(kTokens, kRounded, kept);
  Mat y = values.zeros(kTokens, kWidth);
  mlp.forward(x, y, Write::set, saved, pass);
  EXPECT_LT(arena.high_water(), static_cast<std::size_t>(kTokens * 4 * kFfn) * sizeof(float));
  EXPECT_EQ(arena.used(), 0u);
}

}  // namespace
}  // namespace dml::fixture
