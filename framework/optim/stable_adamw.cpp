// StableAdamW (Wortsman et al. 2023), as optimi computes it: AdamW whose learning rate of each tensor is divided by
// max(1, the root mean square of g/√v). β̂ = (βᵗ − β)/(βᵗ − 1) replaces the bias correction.
#include "optim/arguments.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

class StableAdamW : public Optimizer {
 public:
  explicit StableAdamW(const OptimizerSettings& s) : a_(read_arguments(s, adam_arguments())) {}
  StateLayout state() const override {
    return StateLayout([](const Parameter&) { return ParameterState{{{"state0"}, {"state1"}}, true}; });
  }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const auto t = static_cast<double>(step.number + 1);
    auto debiased = [&](double beta) { return (std::pow(beta, t) - beta) / (std::pow(beta, t) - 1); };
    const double b1 = debiased(a_.number("beta1")), b2 = debiased(a_.number("beta2"));
    const float beta2 = as_float(b2), fresh1 = as_float(1 - b1), fresh2 = as_float(1 - b2), eps = a_.real("eps");
    for (const OptimizerSlice& s : slices) {
      const SliceStep k(s, step, a_.real("weight_decay"));
      float *w = s.value.data(), *m = plane(s, 0), *v = plane(s, 1);
      const float* grad = s.grad.data();
      const double sum = sum_in_order(s.size(), [=](std::int64_t i) {
        const float g = grad[i] * k.scale;
        m[i] += fresh1 * (g - m[i]);
        v[i] = beta2 * v[i] + fresh2 * g * g;
        return g * g / std::max(v[i], eps * eps);
      });
      const double rms = std::sqrt(sum / static_cast<double>(s.size()));
      const float rate = as_float(k.rate / std::max(1.0, rms));
      each_element(s.size(), [=](std::int64_t i) { w[i] -= rate * (k.decay * w[i] + m[i] / (std::sqrt(v[i]) + eps)); });
    }
  }

 private:
  Arguments a_;
};

}  // namespace

OptimizerRows stable_adamw_rows() {
  return {{"stable_adamw",
           "AdamW whose step is reduced, tensor by tensor, where gradients are larger than expected",
           {make_rule<StableAdamW>, adam_arguments()}}};
}

}  // namespace dml
