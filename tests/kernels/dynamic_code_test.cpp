#include "kernels/dynamic_code.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/json.h"
#include "core/random.h"

namespace dml::kernels {
namespace {

const Json& golden() {
  static const Json json = read_json(DML_SOURCE_DIR "/tests/golden/adam8.json");
  return json;
}

// The numbers of tools/make_adam8_golden.py.
std::vector<float> golden_values(bool with_sign) {
  std::vector<float> x(1000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto v = static_cast<float>((static_cast<double>((i * 101 + 3 * 37) % 257) - 128) / 64 *
                                std::pow(2.0, -static_cast<double>((i + 3) % 19)));
    x[i] = with_sign ? v : v * v;
  }
  return x;
}

TEST(DynamicCode, ItsValuesAreThoseThatBitsandbytesBuilds) {
  for (bool with_sign : {true, false}) {
    const Json& want = golden().at("maps").at(with_sign ? "signed" : "unsigned");
    for (std::size_t c = 0; c < 256; ++c) EXPECT_EQ(dynamic_codes(with_sign)[c], want[c].get<float>()) << c;
  }
}

TEST(DynamicCode, CodesAndScalesAreThoseOfASearch) {
  for (bool with_sign : {true, false}) {
    auto x = golden_values(with_sign);
    std::vector<std::uint8_t> codes(x.size());
    std::vector<float> scales(4);
    quantize_blocks(with_sign, x, codes, scales);
    const Json& want = golden().at(with_sign ? "signed" : "unsigned");
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(codes[i], want.at("codes")[i].get<int>()) << "value " << x[i];
    for (std::size_t b = 0; b < scales.size(); ++b) EXPECT_EQ(scales[b], want.at("scales")[b].get<float>());
  }
}

// Against a search by midpoints, over all magnitudes and right at the midpoints.
TEST(DynamicCode, TheShortCutFindsWhatASearchFinds) {
  for (bool with_sign : {true, false}) {
    const auto& map = dynamic_codes(with_sign);
    std::vector<float> x{1, with_sign ? -1.f : 0.f, 0.f, -0.f};
    Random random(4, Purpose::init);
    for (std::uint64_t i = 0; i < 20000; ++i) {
      float v = std::ldexp(random.uniform(2 * i), -static_cast<int>(random.below(2 * i + 1, 30)));
      x.push_back(with_sign && i % 2 ? -v : v);
    }
    for (std::size_t c = 0; c + 1 < 256; ++c) {
      float middle = (map[c] + map[c + 1]) * 0.5f;
      for (float v : {middle, std::nextafter(middle, -2.f), std::nextafter(middle, 2.f), map[c]}) x.push_back(v);
    }
    for (float v : x) {
      std::vector<float> block{v, 1};  // a scale of one
      std::vector<std::uint8_t> codes(2);
      float scale = 0;
      quantize_blocks(with_sign, block, codes, {&scale, 1});
      ASSERT_EQ(scale, 1);
      std::size_t want = 0;
      while (want < 255 && v >= (map[want] + map[want + 1]) * 0.5f) ++want;
      if (map[want] == 0 && v != 0) want += v > 0 ? 1u : static_cast<std::size_t>(-1);
      ASSERT_EQ(codes[0], want) << v;
    }
  }
}

TEST(DynamicCode, ValuesComeBackWithinAHalfStep) {
  for (bool with_sign : {true, false}) {
    auto x = golden_values(with_sign);
    std::vector<std::uint8_t> codes(x.size());
    std::vector<float> scales(4), back(x.size());
    quantize_blocks(with_sign, x, codes, scales);
    dequantize_blocks(with_sign, codes, scales, back);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], scales[i / 256] * 0.0072f);
  }
}

TEST(DynamicCode, ZerosStayZeroAndNanGivesAnInfiniteScale) {
  std::vector<float> x(300, 0.f), back(300, 1.f);
  std::vector<std::uint8_t> codes(300);
  std::vector<float> scales(2);
  quantize_blocks(true, x, codes, scales);
  dequantize_blocks(true, codes, scales, back);
  for (float v : back) EXPECT_EQ(v, 0);
  x[7] = std::numeric_limits<float>::quiet_NaN();
  x[8] = std::numeric_limits<float>::infinity();
  quantize_blocks(true, x, codes, scales);
  EXPECT_EQ(scales[0], std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace dml::kernels
