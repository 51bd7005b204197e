// Gradient descent, in PyTorch's form: g' = g + λw; b = μb + (1 − d)·g' (initially b = g'); w −= η·(nesterov ? g' + μb
// : b).
#include "core/error.h"
#include "kernels/optimizer_step.h"
#include "optim/arguments.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> sgd_arguments() {
  return {
      {"weight_decay", "weight decay of matrices, added to the gradient", 0.0, &OptimizerSettings::weight_decay, 1000},
      {"momentum", "decay rate of the momentum", 0.0, {}, 1},
      {"dampening", "how much less of the gradient goes into the momentum", 0.0, {}, 1},
      {"nesterov", "look ahead along the momentum", false}};
}

class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerSettings& s) : a_(read_arguments(s, sgd_arguments())) {
    if (a_.flag("nesterov") && (a_.number("momentum") == 0 || a_.number("dampening") != 0))
      throw UserError("optim_args: nesterov needs a momentum and no dampening");
  }
  StateLayout state() const override { return 1; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const float momentum = a_.real("momentum"), fresh = step.number == 0 ? 1.0f : 1 - a_.real("dampening");
    const bool nesterov = a_.flag("nesterov");
    for (const OptimizerSlice& s : slices) {
      const SliceStep k(s, step, a_.real("weight_decay"));
      if (!nesterov && fresh == 1) {
        kernels::sgd(k.rate, momentum, k.decay, k.scale, s.value, s.grad, s.state);
        continue;
      }
      float *w = s.value.data(), *b = s.state.data();
      const float* grad = s.grad.data();
      each_element(s.size(), [=](std::int64_t i) {
        const float g = grad[i] * k.scale + k.decay * w[i];
        b[i] = momentum * b[i] + fresh * g;
        w[i] -= k.rate * (nesterov ? g + momentum * b[i] : b[i]);
      });
    }
  }

 private:
  Arguments a_;
};

}  // namespace

OptimizerRows sgd_rows() {
  return {{"sgd",
           "gradient descent, with momentum and nesterov by optim_args; one float of state per parameter",
           {make_rule<Sgd>, sgd_arguments(), {{"flash_sgd", "optimizer state is float32"}}}}};
}

}  // namespace dml
