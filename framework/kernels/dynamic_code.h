// bitsandbytes' 8-bit dynamic code (Dettmers et al. 2022): a sign, a decade of seven, and even steps within the decade,
// so that small values keep their relative precision. Signed, 64 steps in the highest decade; unsigned, 128.
//
// A block of 256 values shares a scale, its largest magnitude; each value becomes the code nearest to value ÷ scale
// (upper one at the midpoint). What is not zero does not become zero: a direction is kept, and a second moment that was
// rounded away (bitsandbytes keeps negative values alone from it) would have the next step divide by epsilon.
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
