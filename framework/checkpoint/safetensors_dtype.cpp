#include "checkpoint/safetensors_dtype.h"

#include <cstring>
#include <utility>

#include "core/bf16.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr std::pair<DType, std::string_view> kNames[] = {
    {DType::f64, "F64"},
    {DType::i64, "I64"},
    {DType::u64, "U64"},
    {DType::c64, "C64"},
    {DType::f32, "F32"},
    {DType::i32, "I32"},
    {DType::u32, "U32"},
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::i16, "I16"},
    {DType::u16, "U16"},
    {DType::i8, "I8"},
    {DType::u8, "U8"},
    {DType::boolean, "BOOL"},
    {DType::f8_e4m3, "F8_E4M3"},
    {DType::f8_e5m2, "F8_E5M2"},
    {DType::f8_e8m0, "F8_E8M0"},
    {DType::f8_e4m3fnuz, "F8_E4M3FNUZ"},
    {DType::f8_e5m2fnuz, "F8_E5M2FNUZ"},
    {DType::f6_e2m3, "F6_E2M3"},
    {DType::f6_e3m2, "F6_E3M2"},
    {DType::f4, "F4"},
};

constexpr std::pair<DType, std::string_view> kTransformersNames[] = {
    {DType::f32, "float32"}, {DType::f16, "float16"}, {DType::bf16, "bfloat16"}};

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

std::string_view safetensors_name(DType dtype) {
  for (auto& [type, name] : kNames)
    if (type == dtype) return name;
  return dtype_row(dtype).name;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (auto& [type, known] : kNames)
    if (known == name) return type;
  return std::nullopt;
}

std::string_view transformers_name(DType dtype) {
  for (auto& [type, name] : kTransformersNames)
    if (type == dtype) return name;
  DML_CHECK(false, "weights of type {}", dtype_row(dtype).name);
}

std::optional<DType> weight_dtype_named(std::string_view name) {
  for (auto& [type, known] : kTransformersNames)
    if (name == known || name == dtype_row(type).name) return type;
  return std::nullopt;
}

bool is_plain_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }
bool is_readable_float(DType dtype) { return is_plain_float(dtype) || dtype == DType::f64; }

void read_floats(DType dtype, const void* data, std::int64_t count, float* out) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(out, data, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::f16:
      return read_as<f16>(data, count, out, [](f16 x) { return to_float(x); });
    case DType::bf16:
      return read_as<bf16>(data, count, out, [](bf16 x) { return to_float(x); });
    case DType::f64:
      return read_as<double>(data, count, out, [](double x) { return static_cast<float>(x); });
    default:
      DML_CHECK(false, "{} is not read as float", safetensors_name(dtype));
  }
}

void write_floats(DType dtype, const float* values, std::int64_t count, void* out) {
  if (dtype == DType::f32) {
    std::memcpy(out, values, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  DML_CHECK(is_plain_float(dtype), "{} is not written from float", safetensors_name(dtype));
  auto* bytes = static_cast<char*>(out);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits = dtype == DType::bf16 ? to_bf16(values[i]).bits : to_f16(values[i]).bits;
    std::memcpy(bytes + 2 * i, &bits, 2);
  }
}

}  // namespace dml
