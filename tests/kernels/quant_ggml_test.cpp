// Bytes of llama.cpp's quantizers: digests and first blocks made with ggml's own code (ggml-quants.c, without
// contraction) from the same pseudo-random numbers; and what such matrices give in products.
#include "kernels/quant_ggml.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "core/random.h"
#include "kernels/gemm.h"
#include "kernels/processor.h"

namespace dml::kernels {
namespace {

std::vector<float> golden_input() {
  std::uint32_t s = 1;
  std::vector<float> x;
  for (int i = 0; i < 4096; ++i) {
    s = s * 1664525u + 1013904223u;
    x.push_back(static_cast<float>(s >> 8) * 0x1p-23f - 1);
  }
  return x;
}

std::uint64_t fnv1a(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 1469598103934665603u;
  for (std::uint8_t b : bytes) hash = (hash ^ b) * 1099511628211u;
  return hash;
}

struct Golden {
  DType dtype;
  std::uint64_t digest;
  double rmse;
  const char* front;
};
constexpr Golden kGolden[] = {
    {DType::q8_0, 0xd4e6b321e3b94fdd, 0.00221921, "cc1fbbde01368ade480f8125beec1859"},
    {DType::q4_0, 0x42c1eb2e23ace272, 0.0386431, "bc2fe456b89b31161d5920ba94674ace"},
    {DType::q4_1, 0x61d33871b56a9db0, 0.0355862, "1d30bcbbd355a88b31151c5820ba9466"},
    {DType::q5_0, 0x35ae63524704ea17, 0.0181478, "bc2bccb20d66c7ac6017713c29a24075"},
    {DType::q5_1, 0x39256a5605f5e983, 0.0170303, "f72bbcbbccb20d66b7ab5016613b28a1"},
    {DType::q4_k, 0x8a6231a5d4d6f7dd, 0.031999, "8a181124fefbfafffcfcfdfebccafc24"},
    {DType::q5_k, 0xd981a03d9a81060a, 0.0159353, "22141724fefefffffdfcfdffccdfff28"},
    {DType::q6_k, 0x9bdb2ffe1f1ed128, 0.00769599, "df48f0ed03c832745129101b56766f0f"},
    {DType::iq4_nl, 0x5d5d62313db0f4d1, 0.0376190, "1b20e345c89c31151d4920cba3563ade"},
    {DType::iq4_xs, 0xcbe0aadc9e23641a, 0.0379571, "400cc33f2ff0fe4fe345b89c31151d49"},
};

std::vector<std::uint8_t> quantized(const BlockFormat& f, std::span<const float> x) {
  const auto blocks = static_cast<std::int64_t>(x.size()) / f.values();
  std::vector<std::uint8_t> out(static_cast<std::size_t>(blocks * f.bytes()));
  f.quantize(x.data(), blocks, out.data());
  return out;
}

TEST(QuantGgml, GivesTheBytesOfTheReference) {
  const std::vector<float> x = golden_input();
  EXPECT_EQ(x[0], -0.527089f);
  for (const Golden& g : kGolden) {
    const BlockFormat& f = *block_format(g.dtype);
    const auto bytes = quantized(f, x);
    std::string front;
    for (int i = 0; i < 16; ++i) front += fmt::format("{:02x}", bytes[static_cast<std::size_t>(i)]);
    EXPECT_EQ(front, g.front);
    EXPECT_EQ(fnv1a(bytes), g.digest) << static_cast<int>(g.dtype);
    std::vector<float> back(x.size());
    f.unpack(bytes.data(), static_cast<std::int64_t>(x.size()) / f.values(), back.data());
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(back[i]) - x[i], 2);
    EXPECT_NEAR(std::sqrt(sum / static_cast<double>(x.size())), g.rmse, 1e-6);
  }
}

// Values by the definition, of a block whose bytes are given; and codes that no other code of theirs beats.
TEST(QuantGgml, CodesOfUnequalDistanceAreTheNearestOfTheirScale) {
  constexpr int kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const BlockFormat& f = *block_format(DType::iq4_nl);
  std::uint8_t block[18] = {0x00, 0x38};  // 0.5
  for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<std::uint8_t>(i | (15 - i) << 4);
  float values[32];
  f.unpack(block, 1, values);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(values[i], 0.5f * static_cast<float>(kValues[i]));
    EXPECT_EQ(values[16 + i], 0.5f * static_cast<float>(kValues[15 - i]));
  }
  const std::vector<float> x = golden_input();
  const auto bytes = quantized(f, x), others = quantized(*block_format(DType::q4_0), x);
  std::vector<float> back(x.size()), of_others(x.size());
  f.unpack(bytes.data(), 128, back.data());
  block_format(DType::q4_0)->unpack(others.data(), 128, of_others.data());
  double error = 0, error_of_others = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    f16 scale;
    std::memcpy(&scale, &bytes[i / 32 * 18], 2);
    for (int value : kValues)
      EXPECT_LE(std::fabs(back[i] - x[i]), std::fabs(to_float(scale) * static_cast<float>(value) - x[i]) + 1e-3f);
    error += std::pow(static_cast<double>(back[i]) - x[i], 2);
    error_of_others += std::pow(static_cast<double>(of_others[i]) - x[i], 2);
  }
  EXPECT_LT(error, 1.1 * error_of_others);  // of equally distributed numbers, for which q4_0 is made
}

TEST(QuantGgml, ABlockDoesNotDependOnItsNeighbors) {
  const std::vector<float> x = golden_input();
  for (const BlockFormat& f : block_formats()) {
    const auto all = quantized(f, x);
    for (std::size_t b = 0; b < x.size() / static_cast<std::size_t>(f.values()); b += 3) {
      const auto one = quantized(
          f, std::span(x).subspan(b * static_cast<std::size_t>(f.values()), static_cast<std::size_t>(f.values())));
      EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(b) * f.bytes())) << b;
    }
  }
}

TEST(QuantGgml, FlatAndEmptyBlocksComeBack) {
  for (const BlockFormat& f : block_formats()) {
    for (float value : {0.0f, 1.5f, -2.0f, 1e-30f}) {
      const std::vector<float> x(512, value);
      const auto bytes = quantized(f, x);
      std::vector<float> back(x.size());
      f.unpack(bytes.data(), 512 / f.values(), back.data());
      for (float v : back)
        EXPECT_NEAR(v, value, 0.07 * std::fabs(value) + 1e-12) << static_cast<int>(f.dtype) << " " << value;
    }
  }
}

// Of any bytes, since files come from anywhere.
TEST(QuantGgml, UnpackGivesTheSameBitsWithEveryInstructionSet) {
  const Random random(9, Purpose::noise);
  for (const BlockFormat& f : block_formats()) {
    constexpr std::int64_t kCols = 2048;
    const std::int64_t blocks = kCols / f.values();
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(blocks * f.bytes()));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(random.below(i, 256));
    for (std::int64_t b = 0; b < blocks; ++b)
      for (std::int64_t place : f.scale_places) {
        const auto at = static_cast<std::size_t>(b * f.bytes() + place);
        const f16 scale = to_f16(b % 4 == 3 ? -0.f : random.normal(1'000'000 + at) / 64);
        std::memcpy(&bytes[at], &scale, sizeof scale);
      }
    std::vector<float> want(kCols), got(kCols);
    f.unpack(bytes.data(), blocks, want.data());
    for (Isa wanted : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
      if (!use_isa(wanted)) continue;
      unpack({f.dtype, 1, kCols, bytes.data()}, 0, 1, 0, kCols, got.data());
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
            << dtype_row(f.dtype).name << " " << isa_name() << " " << i;
    }
    use_isa(best_isa());
  }
}

TEST(QuantGgml, UnpackGivesAnyPartOfARow) {
  Random random(3, Purpose::sample);
  constexpr std::int64_t kHeight = 3, kCols = 768;
  std::vector<float> x(kHeight * kCols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random.normal(i);
  for (const BlockFormat& f : block_formats()) {
    const auto bytes = quantized(f, x);
    const Weight w{f.dtype, kHeight, kCols, bytes.data()};
    std::vector<float> all(x.size());
    f.unpack(bytes.data(), kHeight * kCols / f.values(), all.data());
    for (auto [first, count] : {std::pair{0, 768}, {1, 1}, {31, 300}, {255, 2}, {256, 256}, {500, 268}}) {
      std::vector<float> part(static_cast<std::size_t>(2 * count));
      unpack(w, 1, 2, first, count, part.data());
      for (int r = 0; r < 2; ++r)
        for (int i = 0; i < count; ++i)
          ASSERT_EQ(part[static_cast<std::size_t>(r * count + i)],
                    all[static_cast<std::size_t>((r + 1) * kCols + first + i)]);
    }
    const Weight last = w.slice(2, 1);
    std::vector<float> row(kCols);
    unpack(last, 0, 1, 0, kCols, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), all.begin() + 2 * kCols));
  }
}

TEST(QuantGgml, ProductsAreThoseOfTheUnpackedMatrix) {
  Random random(5, Purpose::sample);
  constexpr std::int64_t kOut = 70, kIn = 512;
  std::vector<float> x(kOut * kIn);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random.normal(i);
  for (const BlockFormat& f : block_formats()) {
    const auto bytes = quantized(f, x);
    const Weight w{f.dtype, kOut, kIn, bytes.data()};
    std::vector<float> plain(x.size());
    unpack(w, 0, kOut, 0, kIn, plain.data());
    const Weight p{DType::f32, kOut, kIn, plain.data()};
    for (std::int64_t rows : {1, 3, 8, 40}) {
      std::vector<float> in(static_cast<std::size_t>(rows * kIn)), one(static_cast<std::size_t>(rows * kOut)),
          two(one.size());
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = random.normal(1'000'000 + i);
      gemm_nt({in.data(), rows, kIn}, w, {one.data(), rows, kOut}, Write::set);
      gemm_nt({in.data(), rows, kIn}, p, {two.data(), rows, kOut}, Write::set);
      EXPECT_EQ(one, two) << rows;
      std::vector<float> back(in.size()), back2(in.size());
      gemm_nn({one.data(), rows, kOut}, w, {back.data(), rows, kIn}, Write::set);
      gemm_nn({one.data(), rows, kOut}, p, {back2.data(), rows, kIn}, Write::set);
      EXPECT_EQ(back, back2) << rows;
    }
  }
}

}  // namespace
}  // namespace dml::kernels
