#include "checkpoint/dtype.h"

#include <array>
#include <cstring>

#include "core/bf16.h"
#include "core/error.h"

namespace dml {
namespace {

struct Row {
  Dtype dtype;
  std::string_view name;
  int bits;
};

// In the order of the enum.
constexpr std::array<Row, 22> kRows{{
    {Dtype::f64, "F64", 64},
    {Dtype::i64, "I64", 64},
    {Dtype::u64, "U64", 64},
    {Dtype::c64, "C64", 64},
    {Dtype::f32, "F32", 32},
    {Dtype::i32, "I32", 32},
    {Dtype::u32, "U32", 32},
    {Dtype::f16, "F16", 16},
    {Dtype::bf16, "BF16", 16},
    {Dtype::i16, "I16", 16},
    {Dtype::u16, "U16", 16},
    {Dtype::i8, "I8", 8},
    {Dtype::u8, "U8", 8},
    {Dtype::boolean, "BOOL", 8},
    {Dtype::f8_e4m3, "F8_E4M3", 8},
    {Dtype::f8_e5m2, "F8_E5M2", 8},
    {Dtype::f8_e8m0, "F8_E8M0", 8},
    {Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::f6_e2m3, "F6_E2M3", 6},
    {Dtype::f6_e3m2, "F6_E3M2", 6},
    {Dtype::f4, "F4", 4},
}};

const Row& row(Dtype dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

template <class T, class Convert>
void read_as(const void* data, std::int64_t count, float* out, Convert convert) {
  auto* bytes = static_cast<const char*>(data);
  for (std::int64_t i = 0; i < count; ++i) {
    T x;
    std::memcpy(&x, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    out[i] = convert(x);
  }
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return row(dtype).name; }
int dtype_bits(Dtype dtype) { return row(dtype).bits; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (auto& r : kRows)
    if (r.name == name) return r.dtype;
  return std::nullopt;
}

std::optional<kernels::Storage> dtype_storage(Dtype dtype) {
  if (dtype == Dtype::f32) return kernels::Storage::f32;
  if (dtype == Dtype::bf16) return kernels::Storage::bf16;
  if (dtype == Dtype::f16) return kernels::Storage::f16;
  return std::nullopt;
}

Dtype storage_dtype(kernels::Storage storage) {
  if (storage == kernels::Storage::bf16) return Dtype::bf16;
  if (storage == kernels::Storage::f16) return Dtype::f16;
  DML_CHECK(storage == kernels::Storage::f32, "quantised storage has no element type of its own");
  return Dtype::f32;
}

bool is_readable_float(Dtype dtype) { return dtype_storage(dtype) || dtype == Dtype::f64; }

void read_floats(Dtype dtype, const void* data, std::int64_t count, float* out) {
  switch (dtype) {
    case Dtype::f32:
      std::memcpy(out, data, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case Dtype::f16:
      return read_as<f16>(data, count, out, [](f16 x) { return to_float(x); });
    case Dtype::bf16:
      return read_as<bf16>(data, count, out, [](bf16 x) { return to_float(x); });
    case Dtype::f64:
      return read_as<double>(data, count, out, [](double x) { return static_cast<float>(x); });
    default:
      DML_CHECK(false, "{} is not read as float", dtype_name(dtype));
  }
}

void write_floats(Dtype dtype, const float* values, std::int64_t count, void* out) {
  if (dtype == Dtype::f32) {
    std::memcpy(out, values, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  DML_CHECK(dtype == Dtype::bf16 || dtype == Dtype::f16, "{} is not written from float", dtype_name(dtype));
  auto* bytes = static_cast<char*>(out);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits = dtype == Dtype::bf16 ? to_bf16(values[i]).bits : to_f16(values[i]).bits;
    std::memcpy(bytes + 2 * i, &bits, 2);
  }
}

}  // namespace dml
