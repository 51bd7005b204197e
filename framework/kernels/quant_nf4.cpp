#include "kernels/quant_nf4.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "core/rounding.h"
#include "kernels/dynamic_code.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

// A value above the i-th threshold takes at least code i + 1: the midpoints of neighboring codes, as printed in
// bitsandbytes' kernel, in whose last digits they are not exactly midpoints.
constexpr std::array<float, 15> kThresholds = {
    -0.8480964004993439f,  -0.6106329262256622f,   -0.4599952697753906f, -0.33967943489551544f, -0.23460740596055984f,
    -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f, 0.1202552504837513f,   0.2035212516784668f,
    0.2920137718319893f,   0.3893125355243683f,    0.5016634166240692f,  0.6427869200706482f,   0.8614784178118011f};

constexpr float kNothing = 1e-38f;  // stands for the absmax of a block of zeros where it is divided by
constexpr std::int64_t kBlocksPerTask = 256;

std::int64_t blocks(std::size_t n, std::int64_t size) { return ceil_div(static_cast<std::int64_t>(n), size); }

float largest_magnitude(std::span<const float> x) {
  float most = 0;
  for (float v : x) most = std::max(most, std::fabs(v));
  return most;
}

std::uint8_t nf4_code(float x) {
  std::uint8_t code = 0;
  for (float threshold : kThresholds) code = static_cast<std::uint8_t>(code + (x > threshold));
  return code;
}

// The nearest entry of the dynamic map, the upper one of two equally near.
std::uint8_t dynamic_code(float x) {
  const auto& map = dynamic_codes(true);
  auto above = std::lower_bound(map.begin(), map.end(), x);
  if (above == map.begin()) return 0;
  if (above == map.end()) return 255;
  auto nearest = x - *(above - 1) < *above - x ? above - 1 : above;
  return static_cast<std::uint8_t>(nearest - map.begin());
}

float scale_of(std::uint8_t code, float most, float mean) {
  volatile float scaled = dynamic_codes(true)[code] * most;  // rounded before the sum, as in two kernels
  return scaled + mean;
}

}  // namespace

void quantize_nf4(std::span<const float> x, std::span<std::uint8_t> codes, std::span<float> absmax) {
  DML_CHECK(codes.size() == (x.size() + 1) / 2 &&
            static_cast<std::int64_t>(absmax.size()) == blocks(x.size(), kNf4Block));
  parallel_ranges(blocks(x.size(), kNf4Block), kBlocksPerTask, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      auto begin = static_cast<std::size_t>(b * kNf4Block);
      auto block = x.subspan(begin, std::min<std::size_t>(kNf4Block, x.size() - begin));
      float most = largest_magnitude(block);
      absmax[static_cast<std::size_t>(b)] = most;
      float inverse = 1 / std::max(most, kNothing);
      for (std::size_t i = 0; i < block.size(); i += 2) {
        std::uint8_t high = nf4_code(block[i] * inverse);
        std::uint8_t low = i + 1 < block.size() ? nf4_code(block[i + 1] * inverse) : std::uint8_t{0};
        codes[(begin + i) / 2] = static_cast<std::uint8_t>(high << 4 | low);
      }
    }
  });
}

void dequantize_nf4(std::span<const std::uint8_t> codes, std::span<const float> absmax, std::span<float> x) {
  DML_CHECK(codes.size() == (x.size() + 1) / 2 &&
            static_cast<std::int64_t>(absmax.size()) == blocks(x.size(), kNf4Block));
  parallel_ranges(static_cast<std::int64_t>(x.size()), kBlocksPerTask * kNf4Block,
                  [&](std::int64_t first, std::int64_t last) {
                    loops().from_nf4(codes.data(), absmax.data(), false, first, last - first, x.data() + first);
                  });
}

float quantize_scales(std::span<const float> scales, std::span<std::uint8_t> codes, std::span<float> block_max) {
  DML_CHECK(codes.size() == scales.size() &&
            static_cast<std::int64_t>(block_max.size()) == blocks(scales.size(), kNf4ScaleBlock));
  if (scales.empty() || dry_run()) return 0;
  double sum = 0;
  for (float v : scales) sum += static_cast<double>(v);
  auto mean = static_cast<float>(sum / static_cast<double>(scales.size()));
  parallel_for(blocks(scales.size(), kNf4ScaleBlock), [&](std::int64_t b) {
    auto begin = static_cast<std::size_t>(b * kNf4ScaleBlock);
    std::size_t count = std::min<std::size_t>(kNf4ScaleBlock, scales.size() - begin);
    float most = 0;
    for (std::size_t i = begin; i < begin + count; ++i) most = std::max(most, std::fabs(scales[i] - mean));
    block_max[static_cast<std::size_t>(b)] = most;
    float inverse = 1 / std::max(most, kNothing);
    for (std::size_t i = begin; i < begin + count; ++i) codes[i] = dynamic_code((scales[i] - mean) * inverse);
  });
  return mean;
}

void round_scales(std::span<float> scales) {
  std::vector<std::uint8_t> codes(scales.size());
  std::vector<float> most(static_cast<std::size_t>(blocks(scales.size(), kNf4ScaleBlock)));
  float mean = quantize_scales(scales, codes, most);
  dequantize_scales(codes, most, mean, scales);
}

void dequantize_scales(std::span<const std::uint8_t> codes, std::span<const float> block_max, float mean,
                       std::span<float> scales) {
  DML_CHECK(codes.size() == scales.size() &&
            static_cast<std::int64_t>(block_max.size()) == blocks(scales.size(), kNf4ScaleBlock));
  parallel_ranges(static_cast<std::int64_t>(scales.size()), 64 * kNf4ScaleBlock,
                  [&](std::int64_t first, std::int64_t last) {
                    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i)
                      scales[i] = scale_of(codes[i], block_max[i / kNf4ScaleBlock], mean);
                  });
}

void expand_scales(const Weight& w, std::int64_t first, std::int64_t count, float* scales) {
  const float mean = w.scale_blocks[0], *block_max = w.scale_blocks + 1;
  for (std::int64_t i = first; i < first + count; ++i)
    *scales++ = scale_of(w.scale_codes[i], block_max[(w.first_block + i) / kNf4ScaleBlock], mean);
}

}  // namespace dml::kernels
