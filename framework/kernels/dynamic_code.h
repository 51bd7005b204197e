// bitsandbytes' 8-bit dynamic code (Dettmers et al. 2022): a sign, one of seven decades, and even steps within the
// decade, so that small values keep their relative precision. Signed, 64 steps in the highest decade; unsigned, 128.
//
// A block of 256 values shares a scale, its largest magnitude; each value becomes the code nearest to value ÷ scale
// (the upper one at the midpoint). Non-zero values never become zero: this keeps the direction, and a second moment
// rounded to zero would make the next step divide by epsilon. (bitsandbytes does so for negative values only.)
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace dml::kernels {

inline constexpr std::int64_t kCodeBlock = 256;

/// The values of the codes, ascending.
const std::array<float, 256>& dynamic_codes(bool with_sign);

/// codes (n), scales (one per block). Blocks of zeros have scale 0.
void quantize_blocks(bool with_sign, std::span<const float> x, std::span<std::uint8_t> codes, std::span<float> scales);
void dequantize_blocks(bool with_sign, std::span<const std::uint8_t> codes, std::span<const float> scales,
                       std::span<float> x);

}  // namespace dml::kernels
