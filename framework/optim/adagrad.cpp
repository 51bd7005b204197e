// Adagrad (Duchi et al. 2011), in PyTorch's form: s += g²; w −= η/(1 + (t − 1)·lr_decay) · g/(√s + ε).
#include "optim/arguments.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> adagrad_arguments() {
  return {
      {"weight_decay", "weight decay of matrices, added to the gradient", 0.0, &OptimizerSettings::weight_decay, 1000},
      {"lr_decay", "decay of the learning rate with the steps", 0.0},
      {"initial_accumulator_value", "sum of squares before the first step", 0.0},
      {"eps", "added to the denominator", 1e-10, {}, 1}};
}

class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const OptimizerSettings& s) : a_(read_arguments(s, adagrad_arguments())) {}
  StateLayout state() const override { return 1; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const float eps = a_.real("eps"), begin = a_.real("initial_accumulator_value");
    for (const OptimizerSlice& s : slices) {
      const SliceStep k(s, step, a_.real("weight_decay"));
      const float rate = as_float(k.rate / (1 + static_cast<double>(step.number) * a_.number("lr_decay")));
      float *w = s.value.data(), *sum = s.state.data();
      const float* grad = s.grad.data();
      each_element(s.size(), [=](std::int64_t i) {
        const float g = grad[i] * k.scale + k.decay * w[i];
        sum[i] = (sum[i] == 0 ? begin : sum[i]) + g * g;  // 0: the first update
        w[i] -= rate * g / (std::sqrt(sum[i]) + eps);
      });
    }
  }

 private:
  Arguments a_;
};

}  // namespace

OptimizerRows adagrad_rows() {
  return {{"adagrad",
           "gradient divided by the root of the sum of its squares; one float of state per parameter",
           {make_rule<Adagrad>, adagrad_arguments()}}};
}

}  // namespace dml
