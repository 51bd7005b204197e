// NF4, four bits a weight, as bitsandbytes stores it (Dettmers et al. 2023, "QLoRA"): row-major blocks of 64 share
// their largest magnitude (absmax); x / absmax goes to the nearest of 16 fixed codes; an even index lies in the high
// nibble. Double quantization stores the absmax values in turn in 8 bits, in blocks of 256, after their mean is taken
// off.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/weight.h"

namespace dml::kernels {

inline constexpr std::int64_t kNf4Block = 64, kNf4ScaleBlock = 256;

/// The 16 code values, rising: quantiles of a normal distribution.
alignas(64) inline constexpr std::array<float, 16> kNf4Codes = {-1.0f,
                                                                -0.6961928009986877f,
                                                                -0.5250730514526367f,
                                                                -0.39491748809814453f,
                                                                -0.28444138169288635f,
                                                                -0.18477343022823334f,
                                                                -0.09105003625154495f,
                                                                0.0f,
                                                                0.07958029955625534f,
                                                                0.16093020141124725f,
                                                                0.24611230194568634f,
                                                                0.33791524171829224f,
                                                                0.44070982933044434f,
                                                                0.5626170039176941f,
                                                                0.7229568362236023f,
                                                                1.0f};

/// codes ((n + 1) / 2 bytes) and absmax (⌈n / 64⌉) of n values. The last block may be short.
void quantize_nf4(std::span<const float> x, std::span<std::uint8_t> codes, std::span<float> absmax);
/// Dequantizes: code · absmax.
void dequantize_nf4(std::span<const std::uint8_t> codes, std::span<const float> absmax, std::span<float> x);

/// Double quantization of n scales: codes (n), block_max (⌈n / 256⌉); returns the mean that was taken off.
float quantize_scales(std::span<const float> scales, std::span<std::uint8_t> codes, std::span<float> block_max);
/// Rounds scales to the values that double quantization stores.
void round_scales(std::span<float> scales);
void dequantize_scales(std::span<const std::uint8_t> codes, std::span<const float> block_max, float mean,
                       std::span<float> scales);
/// Decodes scales [first, first + count) of a weight with double-quantized scales. On the calling thread.
void expand_scales(const Weight& w, std::int64_t first, std::int64_t count, float* scales);

}  // namespace dml::kernels
