#include "kernels/rope.h"

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {

void rope(Mat x, std::int64_t head_dim, const RopeAngles& angles, bool backward) {
  ProfileScope profiled("rope");
  const RopeTable& table = angles.table;
  std::int64_t half = table.cos.cols;
  DML_CHECK(x.cols % head_dim == 0 && 2 * half <= head_dim && std::ssize(angles.rows) == x.rows);
  constexpr std::int64_t kRows = 8;
  const auto turn = table.interleaved ? loops().rope_interleaved : loops().rope;
  parallel_ranges(x.rows, kRows, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      std::int64_t row = angles.rows[static_cast<std::size_t>(t)];
      DML_CHECK(row >= 0 && row < table.cos.rows);
      turn(x.row(t), x.cols / head_dim, head_dim, half, table.cos.row(row), table.sin.row(row), backward ? -1.f : 1.f);
    }
  });
}

}  // namespace dml::kernels
