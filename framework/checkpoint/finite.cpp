#include "checkpoint/finite.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"

namespace dml {
namespace {

// Index of the first value whose exponent bits (`mask`) are all ones.
template <class Bits>
std::int64_t first_with(Bits mask, std::span<const std::byte> bytes) {
  constexpr std::size_t kTogether = 64;  // a constant, so that the compiler vectorizes the loop
  const std::size_t count = bytes.size() / sizeof(Bits);
  Bits values[kTogether];
  for (std::size_t at = 0; at < count; at += kTogether) {
    const std::size_t n = std::min(kTogether, count - at);
    if (n < kTogether) std::fill(values, values + kTogether, Bits{0});
    std::memcpy(values, bytes.data() + at * sizeof(Bits), n * sizeof(Bits));
    Bits found = 0;
    for (Bits v : values) found = static_cast<Bits>(found | ((v & mask) == mask ? 1 : 0));
    if (!found) continue;
    for (std::size_t i = 0;; ++i)
      if ((values[i] & mask) == mask) return static_cast<std::int64_t>(at + i);
  }
  return -1;
}

std::int64_t first_beyond_float(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at + sizeof(double) <= bytes.size(); at += sizeof(double)) {
    double value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (!std::isfinite(static_cast<float>(value))) return static_cast<std::int64_t>(at / sizeof value);
  }
  return -1;
}

}  // namespace

std::int64_t first_not_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::bf16:
      return first_with<std::uint16_t>(0x7f80, bytes);
    case DType::f16:
      return first_with<std::uint16_t>(0x7c00, bytes);
    case DType::f32:
      return first_with<std::uint32_t>(0x7f800000, bytes);
    case DType::f64:
      return first_beyond_float(bytes);
    default:
      return -1;
  }
}

std::string place_in(const TensorView& tensor, std::int64_t element) {
  std::string place;
  for (auto d = tensor.shape.rbegin(); d != tensor.shape.rend(); element /= *d++)
    place = fmt::format("{}{}{}", element % *d, place.empty() ? "" : ", ", place);
  return "[" + place + "]";
}

void refuse_not_finite(const TensorView& tensor, const std::string& directory, std::int64_t element, const char* what) {
  throw UserError("{}: tensor '{}' is NaN or infinite at {}: the {} is damaged", directory, tensor.name,
                  place_in(tensor, element), what);
}

FiniteValues::FiniteValues(const TensorView& tensor, const std::string& directory)
    : tensor_(tensor), directory_(directory) {
  if (!is_readable_float(tensor.dtype))
    throw UserError("{}: tensor '{}' is stored as {}; only F32, BF16, F16 and F64 can be read", directory, tensor.name,
                    safetensors_name(tensor.dtype));
}

void FiniteValues::read(std::int64_t first, std::span<float> out) const {
  const std::int64_t width = dtype_bytes(tensor_.dtype, 1);
  const auto from =
      tensor_.bytes.subspan(static_cast<std::size_t>(first * width), out.size() * static_cast<std::size_t>(width));
  std::atomic<bool> bad = false;
  parallel_ranges(static_cast<std::int64_t>(out.size()), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    auto part = from.subspan(static_cast<std::size_t>(begin * width), static_cast<std::size_t>((end - begin) * width));
    if (first_not_finite(tensor_.dtype, part) >= 0) bad = true;
    read_floats(tensor_.dtype, part.data(), end - begin, out.data() + begin);
  });
  if (bad) refuse_not_finite(tensor_, directory_, first + first_not_finite(tensor_.dtype, from));
  release_pages(from);
}

void FiniteValues::scan() const {
  std::int64_t size = tensor_.size();
  std::vector<float> buffer(static_cast<std::size_t>(std::min(kPiece, size)));
  for (std::int64_t first = 0; first < size; first += kPiece)
    read(first, {buffer.data(), static_cast<std::size_t>(std::min(kPiece, size - first))});
}

}  // namespace dml
