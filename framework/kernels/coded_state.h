// 8-bit optimizer state: codes of dynamic_code.h with a scale per block of 256, decoded to floats during a block's
// update.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/parallel.h"
#include "kernels/dynamic_code.h"

namespace dml::kernels {

struct CodedState {
  std::span<std::uint8_t> codes;
  std::span<float> scales;
};

/// Elements [first, first + count) of a plane, at most one block, decoded to floats; the destructor encodes them again.
class DecodedBlock {
 public:
  DecodedBlock(bool with_sign, const CodedState& state, std::int64_t first, std::int64_t count)
      : with_sign_(with_sign),
        codes_(state.codes.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count))),
        scale_(state.scales.subspan(static_cast<std::size_t>(first / kCodeBlock), 1)) {
    dequantize_blocks(with_sign_, codes_, scale_, values());
  }
  ~DecodedBlock() { quantize_blocks(with_sign_, values(), codes_, scale_); }
  DecodedBlock(const DecodedBlock&) = delete;
  DecodedBlock& operator=(const DecodedBlock&) = delete;
  float* data() { return values_; }

 private:
  std::span<float> values() { return {values_, codes_.size()}; }
  bool with_sign_;
  std::span<std::uint8_t> codes_;
  std::span<float> scale_;
  alignas(64) float values_[kCodeBlock];
};

/// Calls block(first, count) for every block of a slice.
template <class F>
void each_coded_block(std::int64_t size, F block) {
  parallel_ranges(size, 16384, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; i += kCodeBlock) block(i, std::min(kCodeBlock, end - i));
  });
}

}  // namespace dml::kernels
