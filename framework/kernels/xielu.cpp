#include "kernels/xielu.h"

#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kXieluTask = 8192;  // elements

XieluFactors factors_of(const Xielu& a) {
  auto softplus = [](float x) { return x > 20 ? x : std::log1p(std::exp(x)); };
  return {softplus(a.alpha_p), a.beta + softplus(a.alpha_n), a.beta, a.eps};
}

}  // namespace

void xielu(const Xielu& act, ConstMat x, Mat y) {
  ProfileScope profiled("xielu");
  DML_CHECK(x.size() == y.size());
  const XieluFactors f = factors_of(act);
  parallel_ranges(x.size(), kXieluTask, [&](std::int64_t first, std::int64_t last) {
    loops().xielu(f, x.data + first, last - first, y.data + first);
  });
}

// Each task stores its two partial sums; they are added in order.
void xielu_backward(const Xielu& act, ConstMat dy, Mat x, float* dalpha_p, float* dalpha_n, Arena& scratch) {
  ProfileScope profiled("xielu_backward");
  DML_CHECK(x.size() == dy.size());
  Arena::Scope scope(scratch);
  const XieluFactors f = factors_of(act);
  Mat sums = scratch.matrix(ceil_div(x.size(), kXieluTask), 2);
  parallel_ranges(x.size(), kXieluTask, [&](std::int64_t first, std::int64_t last) {
    loops().xielu_backward(f, dy.data + first, x.data + first, last - first, sums.row(first / kXieluTask));
  });
  if (dry_run()) return;
  double p = 0, n = 0;
  for (std::int64_t i = 0; i < sums.rows; ++i) p += sums.row(i)[0], n += sums.row(i)[1];
  auto slope = [](float alpha) { return 1 / (1 + std::exp(-static_cast<double>(alpha))); };
  if (dalpha_p) *dalpha_p += static_cast<float>(p * slope(act.alpha_p));
  if (dalpha_n) *dalpha_n += static_cast<float>(n * slope(act.alpha_n));
}

}  // namespace dml::kernels
