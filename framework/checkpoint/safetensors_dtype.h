// Other programs' names of dtypes, and conversion of element types to and from float32. All arithmetic is in float32;
// other types are read through read_floats().
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace dml {

/// "F32", "BF16" …; a dtype that safetensors lacks has its own name, "q4_k".
std::string_view safetensors_name(DType dtype);
/// Empty for a name that safetensors does not define.
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// What config.json calls the type of unquantized weights: "float32", "float16" or "bfloat16".
std::string_view transformers_name(DType dtype);
/// A type of unquantized weights by its own or transformers' name: "bf16" or "bfloat16". Empty for other names.
std::optional<DType> weight_dtype_named(std::string_view name);

/// Whether the kernels use it directly from a mapped file: f32, f16 and bf16.
bool is_plain_float(DType dtype);
/// Whether read_floats() can turn it into float32: the floating types from 16 to 64 bits.
bool is_readable_float(DType dtype);
/// Converts `count` elements, at any alignment, to float32.
void read_floats(DType dtype, const void* data, std::int64_t count, float* out);
/// Rounds float32 to nearest even into f32, f16 or bf16.
void write_floats(DType dtype, const float* values, std::int64_t count, void* out);

}  // namespace dml
