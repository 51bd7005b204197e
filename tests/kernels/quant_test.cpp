#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/random.h"
#include "kernels/dynamic_code.h"
#include "kernels/gemm.h"
#include "kernels/quant_int8.h"
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"
#include "kernels/weight.h"

namespace dml::kernels {
namespace {

std::vector<float> random_values(std::size_t n, float spread) {
  Random random(5, Purpose::noise);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = spread * random.normal(i);
  return x;
}

TEST(Nf4, TakesTheNearestCodeOfTheScaledValue) {
  auto x = random_values(64 * 50 + 7, 0.02f);
  std::vector<std::uint8_t> codes((x.size() + 1) / 2);
  std::vector<float> absmax((x.size() + 63) / 64), back(x.size());
  quantize_nf4(x, codes, absmax);
  dequantize_nf4(codes, absmax, back);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float scale = absmax[i / 64], best = 10;
    for (float code : kNf4Codes) best = std::min(best, std::fabs(code * scale - x[i]));
    EXPECT_NEAR(std::fabs(back[i] - x[i]), best, 1e-6f * scale);
  }
}

TEST(Nf4, PacksTheEvenIndexInTheHighNibble) {
  std::vector<float> x{-1, 1, 0, 0.44f, 0.5f};
  std::vector<std::uint8_t> codes(3);
  std::vector<float> absmax(1);
  quantize_nf4(x, codes, absmax);
  EXPECT_EQ(absmax[0], 1);
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{0x0f, 0x7c, 0xc0}));
}

TEST(Nf4, KeepsABlockOfZeros) {
  std::vector<float> x(64), back(64, 1), absmax(1);
  std::vector<std::uint8_t> codes(32);
  quantize_nf4(x, codes, absmax);
  dequantize_nf4(codes, absmax, back);
  EXPECT_EQ(x, back);
}

TEST(Nf4, UnpacksAnyBlockOfAMatrixAlike) {
  auto x = random_values(9 * 96, 1);
  std::vector<std::uint8_t> codes(x.size() / 2);
  std::vector<float> absmax((x.size() + 63) / 64), all(x.size()), part(5 * 67);
  quantize_nf4(x, codes, absmax);
  dequantize_nf4(codes, absmax, all);
  Weight w{DType::nf4, 9, 96, codes.data(), absmax.data()};
  unpack(w, 3, 5, 13, 67, part.data());
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 67; ++c) EXPECT_EQ(part[r * 67 + c], all[(r + 3) * 96 + c + 13]);
}

TEST(Nf4, UnpacksToWhatRoundingItsValuesToBf16Gives) {
  auto x = random_values(9 * 96, 1);
  std::vector<std::uint8_t> codes(x.size() / 2);
  std::vector<float> absmax((x.size() + 63) / 64), all(x.size()), part(5 * 67);
  std::vector<bf16> halves(part.size());
  quantize_nf4(x, codes, absmax);
  dequantize_nf4(codes, absmax, all);
  Weight w{DType::nf4, 9, 96, codes.data(), absmax.data()};
  w.bf16_values = true;
  for (Isa each : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(each)) continue;
    unpack(w, 3, 5, 13, 67, part.data());
    if (product_loops().bf16_from_nf4) unpack_bf16(w, 3, 5, 13, 67, halves.data());
    for (std::size_t r = 0; r < 5; ++r)
      for (std::size_t c = 0; c < 67; ++c) {
        const float want = to_float(to_bf16(all[(r + 3) * 96 + c + 13]));
        EXPECT_EQ(part[r * 67 + c], want) << isa_name();
        if (product_loops().bf16_from_nf4) {
          EXPECT_EQ(to_float(halves[r * 67 + c]), want);
        }
      }
  }
  use_isa(best_isa());
}

TEST(Nf4, GivesTheSameBitsFromCodesOfItsScales) {
  const std::int64_t rows = 48, cols = 1024, blocks = rows * cols / kNf4Block;  // three groups of scales
  std::vector<float> x = random_values(static_cast<std::size_t>(rows * cols), 5),
                     scales(static_cast<std::size_t>(blocks)), most(4);
  std::vector<std::uint8_t> codes(x.size() / 2), scale_codes(scales.size());
  quantize_nf4(x, codes, scales);
  most[0] = quantize_scales(scales, scale_codes, std::span(most).subspan(1));
  dequantize_scales(scale_codes, std::span(most).subspan(1), most[0], scales);
  const Weight plain{DType::nf4, rows, cols, codes.data(), scales.data()};
  const Weight nested{DType::nf4, rows, cols, codes.data(), nullptr, scale_codes.data(), most.data()};
  for (auto [first, count] : {std::pair<std::int64_t, std::int64_t>{0, rows}, {21, 20}}) {
    const Weight a = plain.slice(first, count), b = nested.slice(first, count);
    std::vector<float> from_a(static_cast<std::size_t>(3 * 555)), from_b(from_a.size());
    unpack(a, 4, 3, 70, 555, from_a.data());
    unpack(b, 4, 3, 70, 555, from_b.data());
    EXPECT_EQ(from_a, from_b);
    for (std::int64_t tokens : {3, 30}) {
      std::vector<float> in = random_values(static_cast<std::size_t>(tokens * cols), 6),
                         ya(static_cast<std::size_t>(tokens * count)), yb(ya);
      gemm_nt({in.data(), tokens, cols}, a, {ya.data(), tokens, count}, Write::set);
      gemm_nt({in.data(), tokens, cols}, b, {yb.data(), tokens, count}, Write::set);
      EXPECT_EQ(ya, yb);
    }
  }
}

TEST(DynamicMap, HasTheValuesOfItsDefinition) {
  const auto& map = dynamic_codes(true);
  EXPECT_TRUE(std::is_sorted(map.begin(), map.end()));
  EXPECT_EQ(std::adjacent_find(map.begin(), map.end()), map.end()) << "all different";
  EXPECT_EQ(map[255], 1.f);
  EXPECT_EQ(map[127], 0.f);
  EXPECT_NEAR(map[128], 0.55e-6f, 1e-12f);       // the only value of the lowest decade
  EXPECT_NEAR(map[254], 1 - 0.9f / 128, 1e-6f);  // the middle of the last of 64 parts
  EXPECT_NEAR(map[0], -(1 - 0.9f / 128), 1e-6f);
  // All bits of the same map made by PyTorch: torch.linspace, midpoints, powers of ten.
  std::uint64_t hash = 0;
  for (float v : map) hash = hash * 1000003u + std::bit_cast<std::uint32_t>(v);
  EXPECT_EQ(hash, 0x6d1e0c59ae5692deu);
}

TEST(Scales, ComeBackWithinAHundredthOfTheirSpread) {
  auto scales = random_values(1000, 0.01f);
  for (float& s : scales) s = 0.1f + std::fabs(s);
  std::vector<std::uint8_t> codes(scales.size());
  std::vector<float> block_max(4), back(scales.size());
  float mean = quantize_scales(scales, codes, block_max);
  dequantize_scales(codes, block_max, mean, back);
  for (std::size_t i = 0; i < scales.size(); ++i) EXPECT_NEAR(back[i], scales[i], 0.01f * block_max[i / 256]);
}

TEST(Int8, IsWithinHalfAStepOfEveryValue) {
  auto x = random_values(7 * 65, 3);
  std::fill(x.begin() + 65, x.begin() + 130, 0.f);
  std::vector<std::int8_t> q(x.size());
  std::vector<float> scales(7);
  quantize_int8({x.data(), 7, 65}, q, scales);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(q[i] * scales[i / 65], x[i], 0.501f * scales[i / 65]);
}

}  // namespace
}  // namespace dml::kernels
