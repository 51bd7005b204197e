// Weights that bitsandbytes has quantised to nf4 already, as transformers saves them: the codes stay bit for bit, the
// scales are expanded.
//
//   NAME (U8)                              codes, (n + 1) / 2 × 1
//   NAME.absmax                            F32 per block, or U8 when it is quantised in turn, then with
//   NAME.nested_absmax, .nested_quant_map  F32 per block of scales, F32 [256]
//   NAME.quant_map                         F32 [16]
//   NAME.quant_state.bitsandbytes__nf4     U8, JSON: quant_type, blocksize, shape, nested_blocksize, nested_offset …
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/quantised.h"
#include "core/json.h"

namespace dml {

/// What a matrix becomes: QuantisedMatrix says how many of each. With scale_codes, scales are those of scale_blocks().
struct Quantised {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<std::uint8_t> scale_codes;
};

/// Whether config.json says that the folder's linear layers are nf4 of bitsandbytes. UserError when it names another
/// quantisation.
bool is_bitsandbytes_config(const Json& config, const std::string& source);
/// Whether this tensor is stored so.
bool is_bitsandbytes(const ModelFiles& base, const std::string& name);
/// Whether such a tensor was in 16 bits before.
bool is_bitsandbytes_in_16_bits(const ModelFiles& base, const std::string& name);
/// UserError when anything about the tensor is not as the comment above says.
Quantised read_bitsandbytes(const ModelFiles& base, const QuantisedMatrix& matrix, DType scheme);
/// Whether a tensor only belongs to the quantised form of another one.
bool is_bitsandbytes_part(std::string_view name);

}  // namespace dml
