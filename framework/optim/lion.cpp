// Lion (Chen et al. 2023): the sign of an interpolated momentum.
#include "kernels/optimizer_step.h"
#include "optim/arguments.h"
#include "optim/coded.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> lion_arguments() {
  return {weight_decay_argument(),
          {"beta1", "weight of the momentum in the step", 0.9, &OptimizerSettings::beta1, 1},
          {"beta2", "decay rate of the momentum; Lion's authors use 0.99", 0.999, &OptimizerSettings::beta2, 1}};
}

class Lion : public Optimizer {
 public:
  explicit Lion(const OptimizerSettings& s) : a_(read_arguments(s, lion_arguments())) {}
  StateLayout state() const override { return 1; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const StateLayout layout = state();
    const float beta1 = a_.real("beta1"), beta2 = a_.real("beta2");
    for (const OptimizerSlice& s : slices) {
      const SliceStep k(s, step, a_.real("weight_decay"));
      if (layout.in_bytes(*s.parameter))
        kernels::lion_8bit(k.rate, beta1, beta2, k.decay, k.scale, s.value, s.grad, coded(s, 1, 0));
      else kernels::lion(k.rate, beta1, beta2, k.decay, k.scale, s.value, s.grad, s.state);
    }
  }

 private:
  Arguments a_;
};

class Lion8bit : public Lion {
 public:
  using Lion::Lion;
  StateLayout state() const override { return StateLayout::eight_bit(1); }
};

}  // namespace

OptimizerRows lion_rows() {
  return {{"lion",
           "sign of an interpolated momentum; one float of state per parameter",
           {make_rule<Lion>,
            lion_arguments(),
            {{"lion_32bit"}, {"flash_lion", "optimizer state is float32"}, {"paged_lion_32bit"}}}},
          {"lion_8bit", "lion with one byte of state per parameter",
           OptimizerKind(make_rule<Lion8bit>, lion_arguments(), {{"paged_lion_8bit"}}).not_by_element()}};
}

}  // namespace dml
