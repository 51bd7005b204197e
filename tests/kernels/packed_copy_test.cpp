// Products that read a packed copy of their weight have the bits of those that pack it themselves.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "core/parallel.h"
#include "core/virtual_threads.h"
#include "kernels/gemm.h"
#include "kernels/simd/loops.h"
#include "stored.h"

namespace dml::kernels {
namespace {

class PackedCopies : public testing::TestWithParam<std::tuple<Isa, DType, Kind>> {
 protected:
  void SetUp() override {
    if (!use_isa(std::get<0>(GetParam()))) GTEST_SKIP() << "this machine lacks it";
    use_precision(std::get<1>(GetParam()));
  }
  void TearDown() override {
    use_precision(DType::f32);
    use_isa(best_isa());
    set_threads(before_);
  }
  int before_ = threads();
};

std::vector<float> random(std::int64_t size, std::uint64_t seed) {
  return values(static_cast<std::size_t>(size), seed);
}

// A layer with an adapter of rank r, or none, and the results of both directions.
struct Layer {
  std::int64_t t, n, k, r;
  Stored w;
  std::vector<float> x = random(t * k, 1), dy = random(t * n, 2), down = random(t * r, 3), a = random(r * k, 4),
                     b = random(n * r, 5);

  Layer(Kind kind, std::int64_t rows, std::int64_t out, std::int64_t in, std::int64_t rank)
      : t(rows), n(out), k(in), r(rank), w(kind, out, in) {}
  ConstMat low(std::vector<float>& values, std::int64_t rows, std::int64_t cols) const {
    return r > 0 ? mat(values, rows, cols) : Mat{};
  }
  std::vector<float> forward(PackedCopy copy, Write mode = Write::set) {
    std::vector<float> y = random(t * n, 6);
    gemm_nt(ForwardProduct{mat(x, t, k), w.weight, mat(y, t, n), low(down, t, r), low(b, n, r), copy}, mode,
            RowMethod::packed);
    return y;
  }
  std::vector<float> backward(PackedCopy copy, Write mode = Write::set) {
    std::vector<float> dx = random(t * k, 7);
    gemm_nn(InputGradient{mat(dy, t, n), w.weight, mat(dx, t, k), low(down, t, r), low(a, r, k), copy}, mode);
    return dx;
  }
};

TEST_P(PackedCopies, GiveTheBitsOfPackingInTheProduct) {
  const Kind kind = std::get<2>(GetParam());
  for (auto [t, n, k, r] : {std::array<std::int64_t, 4>{1, 32, 256, 0}, {30, 100, 2304, 8}, {150, 333, 512, 17}}) {
    Layer l(kind, t, n, k, r);
    std::vector<float> forward(static_cast<std::size_t>(packed_size(l.w.weight, l.low(l.b, n, r), Direction::forward))),
        backward(static_cast<std::size_t>(packed_size(l.w.weight, l.low(l.a, r, k), Direction::backward)));
    const PackedCopy fore = pack_weight(l.w.weight, l.low(l.b, n, r), Direction::forward, forward.data());
    const PackedCopy back = pack_weight(l.w.weight, l.low(l.a, r, k), Direction::backward, backward.data());
    for (int count : {1, 3, 64}) {
      std::optional<VirtualThreads> more_than_cores;
      if (count > 4) more_than_cores.emplace(count);
      else set_threads(count);
      for (Write mode : {Write::set, Write::add}) {
        EXPECT_EQ(l.forward(fore, mode), l.forward({}, mode)) << t << " " << count;
        EXPECT_EQ(l.backward(back, mode), l.backward({}, mode)) << t << " " << count;
      }
    }
    if (r == 0) continue;
    // Another adapter, packed behind the same weight.
    const std::vector<float> old = l.forward({});
    l.a = random(r * k, 14), l.b = random(n * r, 15);
    EXPECT_EQ(l.forward(fore), old);  // still packed
    pack_adapter(l.w.weight, l.low(l.b, n, r), Direction::forward, forward.data());
    pack_adapter(l.w.weight, l.low(l.a, r, k), Direction::backward, backward.data());
    EXPECT_NE(l.forward(fore), old);
    EXPECT_EQ(l.forward(fore), l.forward({}));
    EXPECT_EQ(l.backward(back), l.backward({}));
    // A product without the adapter, or with one of another rank, does not read the copy.
    for (std::int64_t other : {std::int64_t{0}, r - 1}) {
      l.r = other;
      EXPECT_EQ(l.forward(fore), l.forward({})) << other;
      EXPECT_EQ(l.backward(back), l.backward({})) << other;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , PackedCopies,
    testing::Combine(testing::Values(Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx),
                     testing::Values(DType::f32, DType::bf16),
                     testing::Values(Kind{DType::f32}, Kind{DType::bf16}, Kind{DType::nf4}, Kind{DType::nf4, true},
                                     Kind{DType::int8}, Kind{DType::mxfp4})),
    [](const auto& given) {
      return std::to_string(static_cast<int>(std::get<0>(given.param))) + "_" +
             std::string(dtype_row(std::get<1>(given.param)).name) + "_" + name_of(std::get<2>(given.param));
    });

}  // namespace
}  // namespace dml::kernels
