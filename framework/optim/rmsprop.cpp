// RMSprop (Hinton 2012), in PyTorch's form: v = αv + (1 − α)g²; d = √(v − a²) + ε, a the mean gradient if centered,
// else 0; w −= η·g/d, or with momentum b = μb + g/d, w −= η·b.
#include "optim/arguments.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> rmsprop_arguments() {
  return {
      {"weight_decay", "weight decay of matrices, added to the gradient", 0.0, &OptimizerSettings::weight_decay, 1000},
      {"alpha", "decay rate of the mean square", 0.99, {}, 1},
      {"eps", "added to the denominator", 1e-8, {}, 1},
      {"momentum", "decay rate of the momentum", 0.0, {}, 1},
      {"centered", "divide by the deviation from the mean gradient", false}};
}

class RmsProp : public Optimizer {
 public:
  explicit RmsProp(const OptimizerSettings& s) : a_(read_arguments(s, rmsprop_arguments())) {}
  StateLayout state() const override { return 1 + (momentum() ? 1 : 0) + (a_.flag("centered") ? 1 : 0); }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const float alpha = a_.real("alpha"), eps = a_.real("eps"), mu = a_.real("momentum"),
                fresh = as_float(1 - a_.number("alpha"));
    for (const OptimizerSlice& s : slices) {
      const SliceStep k(s, step, a_.real("weight_decay"));
      float *w = s.value.data(), *v = plane(s, 0), *b = momentum() ? plane(s, 1) : nullptr,
            *mean = a_.flag("centered") ? plane(s, momentum() ? 2 : 1) : nullptr;
      const float* grad = s.grad.data();
      each_element(s.size(), [=](std::int64_t i) {
        const float g = grad[i] * k.scale + k.decay * w[i];
        v[i] = alpha * v[i] + fresh * g * g;
        float square = v[i];
        if (mean) {
          mean[i] = alpha * mean[i] + fresh * g;
          square = std::max(0.0f, square - mean[i] * mean[i]);
        }
        float u = g / (std::sqrt(square) + eps);
        if (b) u = b[i] = mu * b[i] + u;
        w[i] -= k.rate * u;
      });
    }
  }

 private:
  bool momentum() const { return a_.number("momentum") > 0; }
  Arguments a_;
};

}  // namespace

OptimizerRows rmsprop_rows() {
  return {{"rmsprop",
           "gradient divided by its root mean square; one float of state per parameter",
           {make_rule<RmsProp>, rmsprop_arguments()}}};
}

}  // namespace dml
