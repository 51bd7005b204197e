// NAdamW (Dozat 2016): AdamW with Nesterov momentum.
//
//   μ_t = β1·(1 − 0.96^(t·ψ) / 2), ψ the momentum decay;   m, v by β1, β2 as Adam's
//   w −= η·(λw + (1 − μ_t)/(1 − Πμ_{≤t}) · g/d + μ_{t+1}/(1 − Πμ_{≤t+1}) · m/d),   d = √(v/(1 − β2ᵗ)) + ε
//
// The formulas are those of torch.optim.NAdam with decoupled_weight_decay.
#include "optim/arguments.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> nadam_arguments() {
  return joined(adam_arguments(), {{"momentum_decay", "how fast the momentum rises to beta1", 0.004, {}, 1}});
}

class NAdam : public Optimizer {
 public:
  explicit NAdam(const OptimizerSettings& s) : a_(read_arguments(s, nadam_arguments())) {}
  StateLayout state() const override { return 2; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const std::int64_t t = step.number + 1;
    const double product = momentum_product(t), next = momentum(t + 1);
    const float of_gradient = as_float((1 - momentum(t)) / (1 - product)),
                of_mean = as_float(next / (1 - product * next)), beta1 = a_.real("beta1"), beta2 = a_.real("beta2"),
                fresh1 = as_float(1 - a_.number("beta1")), fresh2 = as_float(1 - a_.number("beta2")),
                bias2 = as_float(1 - std::pow(a_.number("beta2"), static_cast<double>(t))), eps = a_.real("eps");
    for (const OptimizerSlice& s : slices) {
      const SliceStep k(s, step, a_.real("weight_decay"));
      float *w = s.value.data(), *m = plane(s, 0), *v = plane(s, 1);
      const float* grad = s.grad.data();
      each_element(s.size(), [=](std::int64_t i) {
        const float g = grad[i] * k.scale;
        m[i] = beta1 * m[i] + fresh1 * g;
        v[i] = beta2 * v[i] + fresh2 * g * g;
        w[i] -= k.rate * (k.decay * w[i] + (of_gradient * g + of_mean * m[i]) / (std::sqrt(v[i] / bias2) + eps));
      });
    }
  }

 private:
  /// μ_t.
  double momentum(std::int64_t t) const {
    return a_.number("beta1") * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * a_.number("momentum_decay")));
  }
  /// μ_1 · … · μ_t, or 0 if 1 − product equals 1 in double precision.
  double momentum_product(std::int64_t t) const {
    constexpr double kNothing = 0x1p-60;
    double product = 1;
    for (std::int64_t i = 1; i <= t && product > kNothing; ++i) product *= momentum(i);
    return product > kNothing ? product : 0;
  }

  Arguments a_;
};

}  // namespace

OptimizerRows nadam_rows() {
  return {{"nadamw",
           "AdamW with Nesterov's momentum; two floats of state per parameter",
           {make_rule<NAdam>, nadam_arguments(), {{"nadam"}}}}};
}

}  // namespace dml
