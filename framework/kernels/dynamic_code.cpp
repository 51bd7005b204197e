#include "kernels/dynamic_code.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"

namespace dml::kernels {
namespace {

// Step i of parts + 1 even steps from 0.1 to 1, rounded like PyTorch's linspace on x86-64: eight lanes at a time from a
// common base, short ones one by one. The last bits of the codes depend on it.
float part_edge(int i, int parts) {
  float step = (1.f - 0.1f) / static_cast<float>(parts);
  if (i == parts) return 1;
  int half = (parts + 1) / 2;
  if (parts < 15)
    return i < half ? std::fma(step, static_cast<float>(i), 0.1f) : std::fma(-step, static_cast<float>(parts - i), 1.f);
  int block = i / 8 * 8;
  volatile float lane = step * static_cast<float>(i - block);
  float base = block < half ? std::fma(step, static_cast<float>(block), 0.1f)
                            : std::fma(-step, static_cast<float>(parts - block), 1.f);
  return base + lane;
}

std::array<float, 256> make_codes(bool with_sign) {
  std::array<float, 256> codes{};
  std::size_t n = 0;
  for (int decade = 0; decade < 7; ++decade) {
    int parts = with_sign ? 1 << decade : 2 << decade;  // number of values: the midpoints of equal parts of [0.1, 1]
    for (int i = 0; i < parts; ++i) {
      float middle = (part_edge(i, parts) + part_edge(i + 1, parts)) / 2;
      float value = static_cast<float>(std::pow(10.0, decade - 6)) * middle;
      codes[n++] = value;
      if (with_sign) codes[n++] = -value;
    }
  }
  codes[n++] = 0;
  codes[n++] = 1;
  std::sort(codes.begin(), codes.end());
  return codes;
}

// Finds codes by a table: the upper bits of a magnitude in [0, 1] index codes that are right or one too low, since the
// 128 intervals of an octave are narrower than the steps of a decade.
class Finder {
 public:
  explicit Finder(bool with_sign) : codes_(make_codes(with_sign)) {
    zero_ = static_cast<int>(std::find(codes_.begin(), codes_.end(), 0.f) - codes_.begin());
    for (std::size_t c = 0; c + 1 < 256; ++c) middle_[c] = (codes_[c] + codes_[c + 1]) * 0.5f;
    middle_[255] = 2;  // above every magnitude, since the last code has no upper neighbor
    for (std::uint32_t i = 0; i < first_.size(); ++i) {
      float lowest = std::bit_cast<float>((i + kFirst) << kShift);
      for (bool below : {false, true}) {
        auto& table = below ? first_below_ : first_;
        float x = below ? std::nextafter(-std::bit_cast<float>((i + kFirst + 1) << kShift), 0.f) : lowest;
        table[i] = static_cast<std::uint8_t>(std::upper_bound(middle_.begin(), middle_.end() - 1, x) - middle_.begin());
      }
    }
  }

  const std::array<float, 256>& codes() const { return codes_; }

  std::uint8_t find(float x) const {  // |x| ≤ 1
    auto bits = std::bit_cast<std::uint32_t>(x);
    std::uint32_t place = std::min((bits & 0x7fffffffu) >> kShift, kLast);
    const auto& table = bits >> 31 ? first_below_ : first_;
    int code = place < kFirst ? zero_ : table[place - kFirst];
    code += x >= middle_[static_cast<std::size_t>(code)];
    if (code == zero_ && x != 0) code += x > 0 ? 1 : -1;
    return static_cast<std::uint8_t>(std::clamp(code, 0, 255));
  }

 private:
  static constexpr std::uint32_t kShift = 16,
                                 kFirst = 0x34000000u >> kShift,  // 2⁻²³: smaller values are nearest to zero
      kLast = 0x3f800000u >> kShift;
  std::array<float, 256> codes_, middle_{};
  int zero_ = 0;
  std::array<std::uint8_t, kLast - kFirst + 1> first_{}, first_below_{};
};

const Finder& finder(bool with_sign) {
  static const Finder with(true), without(false);
  return with_sign ? with : without;
}

}  // namespace

const std::array<float, 256>& dynamic_codes(bool with_sign) { return finder(with_sign).codes(); }

void quantize_blocks(bool with_sign, std::span<const float> x, std::span<std::uint8_t> codes, std::span<float> scales) {
  const Finder& f = finder(with_sign);
  for (std::size_t first = 0, b = 0; first < x.size(); first += kCodeBlock, ++b) {
    auto block = x.subspan(first, std::min<std::size_t>(kCodeBlock, x.size() - first));
    float most = 0;
    for (float v : block) most = std::max(most, std::fabs(v));
    scales[b] = most;
    float divisor = most > 0 ? most : 1;
    for (std::size_t i = 0; i < block.size(); ++i) codes[first + i] = f.find(block[i] / divisor);
  }
}

void dequantize_blocks(bool with_sign, std::span<const std::uint8_t> codes, std::span<const float> scales,
                       std::span<float> x) {
  const auto& values = dynamic_codes(with_sign);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = values[codes[i]] * scales[i / kCodeBlock];
}

}  // namespace dml::kernels
