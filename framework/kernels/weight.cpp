#include "kernels/weight.h"

#include "core/error.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {

std::int64_t storage_bytes(Storage storage, std::int64_t elements) {
  switch (storage) {
    case Storage::f32:
      return elements * 4;
    case Storage::bf16:
    case Storage::f16:
      return elements * 2;
    case Storage::int8:
      return elements;
    case Storage::nf4:
      return (elements + 1) / 2;
  }
  return 0;
}

Weight Weight::slice(std::int64_t first, std::int64_t count) const {
  DML_CHECK(first >= 0 && count >= 0 && first + count <= rows);
  DML_CHECK(storage != Storage::nf4 || first * cols % 64 == 0);
  Weight part = *this;
  part.rows = count;
  part.data = static_cast<const char*>(data) + storage_bytes(storage, first * cols);
  if (storage == Storage::nf4) part.scales = scales + first * cols / 64;
  if (storage == Storage::int8) part.scales = scales + first;
  return part;
}

void unpack(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols, float* out) {
  const Loops& loop = loops();
  for (std::int64_t r = row; r < row + nrows; ++r, out += ncols) {
    std::int64_t first = r * w.cols + col;
    const char* at =
        static_cast<const char*>(w.data) + (w.storage == Storage::nf4 ? 0 : storage_bytes(w.storage, first));
    switch (w.storage) {
      case Storage::f32:
        __builtin_memcpy(out, at, static_cast<std::size_t>(ncols) * sizeof(float));
        break;
      case Storage::bf16:
        loop.from_bf16(at, ncols, out);
        break;
      case Storage::f16:
        loop.from_f16(at, ncols, out);
        break;
      case Storage::int8:
        loop.from_int8(at, ncols, w.scales[r], out);
        break;
      case Storage::nf4:
        loop.from_nf4(w.data, w.scales, first, ncols, out);
        break;
    }
  }
}

}  // namespace dml::kernels
