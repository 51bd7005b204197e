// NF4, four bits a weight, as bitsandbytes stores it (Dettmers et al. 2023, "QLoRA"): row-major blocks of 64 share
// their largest magnitude (absmax); x / absmax goes to the nearest of 16 fixed codes; an even index lies in the high
// nibble. Double quantisation stores the absmax values in turn in 8 bits, in blocks of 256, after their mean is taken
// off.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/weight.h"

namespace dml::kernels {

inline constexpr std::int64_t kNf4Block = 64, kNf4ScaleBlock = 256;

/// The 16 code values, rising.
std::span<const float, 16> nf4_codes();

/// codes ((n + 1) / 2 bytes) and absmax (⌈n / 64⌉) of n values. The last block may be short.
void quantize_nf4(std::span<const float> x, std::span<std::uint8_t> codes, std::span<float> absmax);
/// The values back: code · absmax.
void dequantize_nf4(std::span<const std::uint8_t> codes, std::span<const float> absmax, std::span<float> x);

/// Double quantisation of n scales: codes (n), block_max (⌈n / 256⌉); returns the mean that was taken off.
float quantize_scales(std::span<const float> scales, std::span<std::uint8_t> codes, std::span<float> block_max);
/// Scales become the values that double quantisation leaves them.
void round_scales(std::span<float> scales);
void dequantize_scales(std::span<const std::uint8_t> codes, std::span<const float> block_max, float mean,
                       std::span<float> scales);
/// Scales [first, first + count) of a weight that has them as codes. On the calling thread.
void expand_scales(const Weight& w, std::int64_t first, std::int64_t count, float* scales);

}  // namespace dml::kernels
