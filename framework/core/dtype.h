// Every type in which numbers are stored: elements of files and of memory, and codes of quantized weights. What a type
// means to one part of the program stands in that part's table: how kernels read it in kernels/stored_format.cpp, its
// name in safetensors in checkpoint/safetensors_dtype.cpp, its number in GGUF in exchange/gguf.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dml {

enum class DType : std::uint8_t {
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
  f4,
  nf4,
  int8,
  mxfp4,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs
};

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::int64_t values, bytes;  // of a block: the fewest elements in whole bytes, with the scales that lie among them
};

/// In the order of the enum.
inline constexpr DTypeRow kDTypes[] = {
    {DType::f64, "f64", 1, 8},
    {DType::i64, "i64", 1, 8},
    {DType::u64, "u64", 1, 8},
    {DType::c64, "c64", 1, 8},
    {DType::f32, "f32", 1, 4},
    {DType::i32, "i32", 1, 4},
    {DType::u32, "u32", 1, 4},
    {DType::f16, "f16", 1, 2},
    {DType::bf16, "bf16", 1, 2},
    {DType::i16, "i16", 1, 2},
    {DType::u16, "u16", 1, 2},
    {DType::i8, "i8", 1, 1},
    {DType::u8, "u8", 1, 1},
    {DType::boolean, "bool", 1, 1},
    {DType::f8_e4m3, "f8_e4m3", 1, 1},
    {DType::f8_e5m2, "f8_e5m2", 1, 1},
    {DType::f8_e8m0, "f8_e8m0", 1, 1},
    {DType::f8_e4m3fnuz, "f8_e4m3fnuz", 1, 1},
    {DType::f8_e5m2fnuz, "f8_e5m2fnuz", 1, 1},
    {DType::f6_e2m3, "f6_e2m3", 4, 3},
    {DType::f6_e3m2, "f6_e3m2", 4, 3},
    {DType::f4, "f4", 2, 1},
    // Codes; their scales lie elsewhere.
    {DType::nf4, "nf4", 2, 1},      // NormalFloat (Dettmers et al. 2023), a scale per 64
    {DType::int8, "int8", 1, 1},    // a scale per row
    {DType::mxfp4, "mxfp4", 2, 1},  // E2M1 (OCP Microscaling, 2023; as gpt-oss stores it), a power of two per 32
    // Blocks of ggml (kernels/quant_ggml.h).
    {DType::q4_0, "q4_0", 32, 18},
    {DType::q4_1, "q4_1", 32, 20},
    {DType::q5_0, "q5_0", 32, 22},
    {DType::q5_1, "q5_1", 32, 24},
    {DType::q8_0, "q8_0", 32, 34},
    {DType::q4_k, "q4_k", 256, 144},
    {DType::q5_k, "q5_k", 256, 176},
    {DType::q6_k, "q6_k", 256, 210},
    {DType::iq4_nl, "iq4_nl", 32, 18},
    {DType::iq4_xs, "iq4_xs", 256, 136},
};
static_assert([] {
  for (std::size_t i = 0; i < std::size(kDTypes); ++i)
    if (static_cast<std::size_t>(kDTypes[i].dtype) != i) return false;
  return true;
}());

constexpr const DTypeRow& dtype_row(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

/// Bytes of that many elements, which are whole blocks, or codes whose last byte need not be full.
constexpr std::int64_t dtype_bytes(DType dtype, std::int64_t elements) {
  const DTypeRow& row = dtype_row(dtype);
  return (elements * row.bytes + row.values - 1) / row.values;
}

/// Bits of one element; of ggml's blocks the whole bits.
constexpr int dtype_bits(DType dtype) { return static_cast<int>(8 * dtype_row(dtype).bytes / dtype_row(dtype).values); }

}  // namespace dml
