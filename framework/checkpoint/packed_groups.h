// Reads matrices that AWQ, GPTQ and mlx-lm quantized to 4 bits in groups of a row, each with a scale and a zero point.
// All three are value = scale · code + offset, which is ggml's q4_1 with blocks of 32 (kernels/quant_ggml.h). They are
// converted to it, so kernels, adapters, merging and conversion handle them like GGUF files.
//
//   awq   NAME.qweight I32 (in, out/8), NAME.qzeros I32 (in/G, out/8), NAME.scales F16 (in/G, out);
//         a word holds columns 0 2 4 6 1 3 5 7, lowest bits first; value = scale · (code − zero) (AutoAWQ gemm)
//   gptq  NAME.qweight I32 (in/8, out), NAME.qzeros I32 (in/G, out/8), NAME.scales F16 (in/G, out);
//         NAME.g_idx I32 (in); zeros are stored less one, but for checkpoint_format gptq_v2 (AutoGPTQ, GPTQModel)
//   mlx   NAME.weight U32 (out, in/8), NAME.scales, NAME.biases (out, in/G);
//         value = scale · code + bias (mlx.core.quantize)
//
// The offset is rounded to half precision, a relative error of 2^-11; for symmetric GPTQ, and for mlx-lm in half
// precision, it is exact.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/model_files.h"
#include "core/json.h"
#include "model/spec.h"

namespace dml {

enum class PackedFormat { none, awq, gptq, mlx };

struct PackedConfig {
  PackedFormat format = PackedFormat::none;
  std::int64_t group = 0;       // values of a row that share a scale; 0: the whole row
  bool zeros_less_one = false;  // for gptq
  const char* name() const;     // "AWQ"
};

/// Reads config.json. UserError for unsupported bit widths and versions.
PackedConfig packed_config(const Json& config, const std::string& source);

/// The model's weights with its packed matrices as q4_1 in memory; the others stay mapped. UserError naming the tensor
/// that is missing, or of another shape or dtype.
ModelFiles unpack_groups(ModelFiles stored, const PackedConfig& config, const ModelSpec& spec);

}  // namespace dml
