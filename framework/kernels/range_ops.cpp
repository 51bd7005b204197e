#include "kernels/range_ops.h"

#include "kernels/simd/loops.h"

namespace dml::kernels {

void round_to_bf16(std::span<const float> from, bf16* to) { loops().to_bf16(from.data(), std::ssize(from), to); }
void widen_bf16(const bf16* from, std::span<float> to) { loops().from_bf16(from, std::ssize(to), to.data()); }
double sum_of_squares(std::span<const float> x) { return loops().sum_of_squares(x.data(), std::ssize(x)); }
RowStats row_stats(std::span<const float> x) { return loops().row_stats(x.data(), std::ssize(x)); }

}  // namespace dml::kernels
