// quantization_config.json beside an adapter says how the base was quantized while the adapter was trained. PEFT's
// adapter_config.json does not say it, and on a base with other values the adapter gives other results.
//
// It has the fields of transformers' BitsAndBytesConfig, which from_dict() reads.
#pragma once

#include <optional>
#include <string>

#include "core/dtype.h"

namespace dml {

inline constexpr const char* kQuantizationConfig = "quantization_config.json";

/// The text of the file. `scheme`: nf4 or int8; `base`: the element type of the base's files.
std::string quantization_config_text(DType scheme, DType base);
/// nf4, int8, or empty if the folder has no such file. UserError for any other quantization.
std::optional<DType> read_quantization_config(const std::string& folder);

}  // namespace dml
