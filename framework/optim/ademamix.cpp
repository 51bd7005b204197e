// AdEMAMix (Pagliardini et al. 2024): AdamW with a second, slower mean of the gradient.
//
//   m1, m2, v by β1, β3, β2; w −= η·(λw + (m1/(1 − β1ᵗ) + α·m2) / (√v/√(1 − β2ᵗ) + ε))
//
// Over the first t_alpha and t_beta3 steps, α rises linearly to its value, and β3 so that its half-life rises linearly.
#include "optim/adam.h"
#include "optim/coded.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> ademamix_arguments() {
  return joined(adam_arguments(), {{"beta3", "decay rate of the slow mean", 0.9999, &OptimizerSettings::beta3, 1},
                                   {"alpha", "weight of the slow mean", 5.0},
                                   {"t_alpha", "steps in which alpha rises; 0: at once", 0.0},
                                   {"t_beta3", "steps in which beta3 rises from beta1; 0: at once", 0.0}});
}

struct MixStep {
  float rate, decay, scale, beta1, beta2, beta3, fresh1, fresh2, fresh3, alpha, bias1, root_bias2, eps;
};

void update(const MixStep& k, std::int64_t n, float* w, const float* grad, float* m1, float* m2, float* v) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * k.scale;
    m1[i] = k.beta1 * m1[i] + k.fresh1 * g;
    m2[i] = k.beta3 * m2[i] + k.fresh3 * g;
    v[i] = k.beta2 * v[i] + k.fresh2 * g * g;
    const float u = (m1[i] / k.bias1 + k.alpha * m2[i]) / (std::sqrt(v[i]) / k.root_bias2 + k.eps);
    w[i] -= k.rate * (k.decay * w[i] + u);
  }
}

class AdEMAMix : public Optimizer {
 public:
  explicit AdEMAMix(const OptimizerSettings& s) : a_(read_arguments(s, ademamix_arguments())) {}
  StateLayout state() const override { return 3; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const StateLayout layout = state();
    MixStep k = step_of(static_cast<double>(step.number + 1));
    for (const OptimizerSlice& s : slices) {
      const SliceStep here(s, step, a_.real("weight_decay"));
      k.rate = here.rate, k.decay = here.decay, k.scale = here.scale;
      float* w = s.value.data();
      const float* grad = s.grad.data();
      if (layout.in_bytes(*s.parameter)) {
        kernels::each_coded_block(s.size(), [&](std::int64_t at, std::int64_t n) {
          kernels::DecodedBlock m1(true, coded(s, 3, 0), at, n), m2(true, coded(s, 3, 1), at, n),
              v(false, coded(s, 3, 2), at, n);
          update(k, n, w + at, grad + at, m1.data(), m2.data(), v.data());
        });
        continue;
      }
      float *m1 = plane(s, 0), *m2 = plane(s, 1), *v = plane(s, 2);
      parallel_ranges(s.size(), kElementGrain, [&](std::int64_t first, std::int64_t last) {
        update(k, last - first, w + first, grad + first, m1 + first, m2 + first, v + first);
      });
    }
  }

 private:
  MixStep step_of(double t) const {
    const double beta1 = a_.number("beta1"), beta2 = a_.number("beta2"), top = a_.number("beta3"),
                 t_alpha = a_.number("t_alpha"), t_beta3 = a_.number("t_beta3");
    double alpha = a_.number("alpha"), beta3 = top;
    if (t_alpha > 0) alpha = std::min(t * alpha / t_alpha, alpha);
    if (t_beta3 > 0) {
      const double s = t / t_beta3, a = std::log(beta1), b = std::log(top);
      if (s < 1) beta3 = std::min(std::exp(a * b / ((1 - s) * b + s * a)), top);
    }
    MixStep k{};
    k.beta1 = as_float(beta1), k.beta2 = as_float(beta2), k.beta3 = as_float(beta3), k.alpha = as_float(alpha);
    k.fresh1 = as_float(1 - beta1), k.fresh2 = as_float(1 - beta2), k.fresh3 = as_float(1 - beta3);
    k.bias1 = as_float(1 - std::pow(beta1, t));
    k.root_bias2 = as_float(std::sqrt(1 - std::pow(beta2, t)));
    k.eps = a_.real("eps");
    return k;
  }
  Arguments a_;
};

class AdEMAMix8bit : public AdEMAMix {
 public:
  using AdEMAMix::AdEMAMix;
  StateLayout state() const override { return StateLayout::eight_bit(3); }
};

}  // namespace

OptimizerRows ademamix_rows() {
  return {{"ademamix",
           "AdamW with a second, slower mean of the gradient; three floats of state per parameter",
           {make_rule<AdEMAMix>, ademamix_arguments(), {{"paged_ademamix_32bit"}}}},
          {"ademamix_8bit", "ademamix with three bytes of state per parameter",
           OptimizerKind(make_rule<AdEMAMix8bit>, ademamix_arguments(), {{"paged_ademamix_8bit"}}).not_by_element()}};
}

}  // namespace dml
