// Element types of tensors in files, as safetensors names them. Arithmetic knows float32 only: everything else is read
// through read_floats().
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/weight.h"

namespace dml {

enum class Dtype : std::uint8_t {
  f64,
  i64,
  u64,
  c64,
  f32,
  i32,
  u32,
  f16,
  bf16,
  i16,
  u16,
  i8,
  u8,
  boolean,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4
};

/// "F32", "BF16" …
std::string_view dtype_name(Dtype dtype);
/// Nothing for a name that safetensors does not know.
std::optional<Dtype> dtype_from_name(std::string_view name);
/// Bits of one element; 4 and 6 occur.
int dtype_bits(Dtype dtype);

/// f32, f16 and bf16 can be used by the kernels straight from a mapped file.
std::optional<kernels::Storage> dtype_storage(Dtype dtype);
Dtype storage_dtype(kernels::Storage storage);

/// Whether read_floats() can turn it into float32: the floating types from 16 to 64 bits.
bool is_readable_float(Dtype dtype);
/// `count` elements, at any alignment, as float32.
void read_floats(Dtype dtype, const void* data, std::int64_t count, float* out);
/// float32 rounded to nearest even into f32, f16 or bf16.
void write_floats(Dtype dtype, const float* values, std::int64_t count, void* out);

}  // namespace dml
