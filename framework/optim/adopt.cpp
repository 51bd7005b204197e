// ADOPT (Taniguchi et al. 2024): Adam that divides by the second moment of the previous step, so that it converges for
// any β2.
//
//   first gradient: v = g²; then, for t = 1, 2, …: m = β1·m + (1 − β1)·clip(g / max(√v, ε), ±t^¼); w −= η·(λw + m);
//   v = β2·v + (1 − β2)·g²
#include "optim/arguments.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> adopt_arguments() { return adam_arguments(0.9, 0.9999, 1e-6); }

class Adopt : public Optimizer {
 public:
  explicit Adopt(const OptimizerSettings& s) : a_(read_arguments(s, adopt_arguments())) {}
  StateLayout state() const override { return 2; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const float beta1 = a_.real("beta1"), beta2 = a_.real("beta2"), eps = a_.real("eps"),
                fresh1 = as_float(1 - a_.number("beta1")), fresh2 = as_float(1 - a_.number("beta2")),
                most = as_float(std::pow(static_cast<double>(step.number), 0.25));
    for (const OptimizerSlice& s : slices) {
      const SliceStep k(s, step, a_.real("weight_decay"));
      float *w = s.value.data(), *m = plane(s, 0), *v = plane(s, 1);
      const float* grad = s.grad.data();
      if (step.number == 0) {
        each_element(s.size(), [=](std::int64_t i) { v[i] = grad[i] * k.scale * grad[i] * k.scale; });
        continue;
      }
      each_element(s.size(), [=](std::int64_t i) {
        const float g = grad[i] * k.scale, u = g / std::max(std::sqrt(v[i]), eps);
        m[i] = beta1 * m[i] + fresh1 * std::clamp(u, -most, most);
        w[i] -= k.rate * (k.decay * w[i] + m[i]);
        v[i] = beta2 * v[i] + fresh2 * g * g;
      });
    }
  }

 private:
  Arguments a_;
};

}  // namespace

OptimizerRows adopt_rows() {
  return {{"adopt_adamw",
           "Adam that divides by the second moment of the step before; the first step changes nothing",
           {make_rule<Adopt>, adopt_arguments(), {{"adopt"}}}}};
}

}  // namespace dml
