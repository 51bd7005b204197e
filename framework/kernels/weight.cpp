#include "kernels/weight.h"

#include "core/error.h"
#include "kernels/nf4_values.h"
#include "kernels/stored_format.h"

namespace dml::kernels {

std::int64_t bytes_of_rows(const Weight& w, std::int64_t rows) {
  Weight part = w;
  part.rows = rows;
  return dtype_bytes(w.dtype, rows * w.cols) + scale_count(part) * (w.scales ? std::int64_t{sizeof(float)} : 1);
}

Weight Weight::slice(std::int64_t first, std::int64_t count) const {
  DML_CHECK(first >= 0 && count >= 0 && first + count <= rows);
  const std::int64_t together = stored_format(dtype).scaled, skipped = first * row_step * cols;
  DML_CHECK(together <= 0 || skipped % together == 0);
  Weight part = *this;
  part.rows = count;
  part.data = static_cast<const char*>(data) + dtype_bytes(dtype, skipped);
  if (together == StoredFormat::kRow) part.scales = scales + first;
  if (together > 0 && scales) part.scales = scales + skipped / together;
  if (scale_codes) part.scale_codes = scale_codes + skipped / together;
  if (scale_blocks) part.first_block = first_block + skipped / together;
  return part;
}

void unpack(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols, float* out) {
  const StoredFormat& format = stored_format(w.dtype);
  for (std::int64_t r = row; r < row + nrows; ++r, out += ncols) format.unpack(w, r, col, ncols, out);
}

bool is_bf16(const Weight& w) { return w.dtype == DType::bf16 || (w.dtype == DType::nf4 && w.bf16_values); }

void unpack_bf16(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols,
                 bf16* out) {
  DML_CHECK(w.dtype == DType::nf4 && w.bf16_values);
  for (std::int64_t r = row; r < row + nrows; ++r, out += ncols) nf4_values(w, r * w.cols + col, ncols, out);
}

}  // namespace dml::kernels
