#include "checkpoint/finite.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"

namespace dml {
namespace {

bool is_finite(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }

}  // namespace

FiniteValues::FiniteValues(const TensorView& tensor, const std::string& directory)
    : tensor_(tensor), directory_(directory) {
  if (!is_readable_float(tensor.dtype))
    throw UserError("{}: tensor '{}' is stored as {}; only F32, BF16, F16 and F64 can be read", directory, tensor.name,
                    dtype_name(tensor.dtype));
}

void FiniteValues::read(std::int64_t first, std::span<float> out) const {
  const std::int64_t width = dtype_bits(tensor_.dtype) / 8;
  const std::byte* from = tensor_.bytes.data() + first * width;
  std::atomic<bool> bad = false;
  parallel_ranges(static_cast<std::int64_t>(out.size()), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    read_floats(tensor_.dtype, from + begin * width, end - begin, out.data() + begin);
    if (!std::all_of(out.data() + begin, out.data() + end, is_finite)) bad = true;
  });
  if (bad) refuse(first + (std::ranges::find_if_not(out, is_finite) - out.begin()));
  release_pages({from, out.size() * static_cast<std::size_t>(width)});
}

void FiniteValues::look_through() const {
  std::int64_t size = tensor_.size();
  std::vector<float> buffer(static_cast<std::size_t>(std::min(kPiece, size)));
  for (std::int64_t first = 0; first < size; first += kPiece)
    read(first, {buffer.data(), static_cast<std::size_t>(std::min(kPiece, size - first))});
}

void FiniteValues::refuse(std::int64_t at) const {
  std::string place;
  for (auto d = tensor_.shape.rbegin(); d != tensor_.shape.rend(); at /= *d++)
    place = fmt::format("{}{}{}", at % *d, place.empty() ? "" : ", ", place);
  throw UserError("{}: tensor '{}' is NaN or infinite at [{}]: the base model is damaged", directory_, tensor_.name,
                  place);
}

void refuse_not_finite(const ModelFiles& files, std::size_t first, std::size_t stride) {
  for (std::size_t i = first; i < files.tensors().size(); i += stride)
    if (const TensorView& t = files.tensors()[i]; is_readable_float(t.dtype))
      FiniteValues(t, files.directory()).look_through();
}

}  // namespace dml
