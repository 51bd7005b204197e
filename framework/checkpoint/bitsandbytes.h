// Reads weights that bitsandbytes quantized to nf4, as transformers saves them: codes are used bit for bit,
// double-quantized scales are expanded.
//
//   NAME (U8)                              codes, (n + 1) / 2 × 1
//   NAME.absmax                            F32 per block, or U8 when it is quantized in turn, then with
//   NAME.nested_absmax, .nested_quant_map  F32 per block of scales, F32 [256]
//   NAME.quant_map                         F32 [16]
//   NAME.quant_state.bitsandbytes__nf4     U8, JSON: quant_type, blocksize, shape, nested_blocksize, nested_offset …
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/quantized.h"
#include "core/json.h"

namespace dml {

/// A quantized matrix; QuantizedMatrix defines the sizes. With scale_codes, `scales` are those of scale_blocks().
struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<std::uint8_t> scale_codes;
};

/// Whether, by config.json, the linear layers are quantized to bitsandbytes' nf4. UserError when it names another
/// quantization.
bool is_bitsandbytes_config(const Json& config, const std::string& source);
/// Whether this tensor is quantized by bitsandbytes.
bool is_bitsandbytes(const ModelFiles& base, const std::string& name);
/// Whether the original dtype of such a tensor had 16 bits.
bool is_bitsandbytes_in_16_bits(const ModelFiles& base, const std::string& name);
/// Reads one matrix. UserError unless its tensors have the form described above.
Quantized read_bitsandbytes(const ModelFiles& base, const QuantizedMatrix& matrix, DType scheme);
/// Whether a tensor is only a component of another, quantized one.
bool is_bitsandbytes_part(std::string_view name);

}  // namespace dml
