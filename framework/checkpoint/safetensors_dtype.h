// safetensors' names of types, and values of element types to and from float32. Arithmetic knows float32 only:
// everything else is read through read_floats().
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace dml {

/// "F32", "BF16" …; a type that safetensors lacks has its own name, "q4_k".
std::string_view safetensors_name(DType dtype);
/// Nothing for a name that safetensors does not know.
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// f32, f16 and bf16: the kernels use them straight from a mapped file.
bool is_plain_float(DType dtype);
/// Whether read_floats() can turn it into float32: the floating types from 16 to 64 bits.
bool is_readable_float(DType dtype);
/// `count` elements, at any alignment, as float32.
void read_floats(DType dtype, const void* data, std::int64_t count, float* out);
/// float32 rounded to nearest even into f32, f16 or bf16.
void write_floats(DType dtype, const float* values, std::int64_t count, void* out);

}  // namespace dml
