// AdamW (Loshchilov & Hutter 2019), with state in float32 or 8 bits.
#include "optim/adam.h"

#include "kernels/optimizer_step.h"
#include "optim/coded.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

kernels::AdamWStep kernel_step(const AdamSettings& a, const OptimizerSlice& s, const OptimizerStep& step) {
  const auto t = static_cast<double>(step.number + 1);
  const SliceStep here(s, step, as_float(a.weight_decay));
  kernels::AdamWStep k{};
  k.learning_rate = here.rate;
  k.beta1 = as_float(a.beta1);
  k.beta2 = as_float(a.beta2);
  k.epsilon = as_float(a.epsilon);
  k.weight_decay = here.decay;
  // The bias corrections of the float32 β that the updates use: 1 − 0.999 in float32 differs from the exact value by a
  // relative 1e-5.
  k.bias1 = as_float(1 - std::pow(static_cast<double>(k.beta1), t));
  k.bias2 = as_float(1 - std::pow(static_cast<double>(k.beta2), t));
  k.gradient_scale = here.scale;
  return k;
}

class AdamW : public Optimizer {
 public:
  explicit AdamW(const OptimizerSettings& s) : a_(read_arguments(s, adam_arguments())) {}
  StateLayout state() const override { return 2; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    for (const OptimizerSlice& s : slices) adamw_update(a_, s, step, plane(s, 0), plane(s, 1));
  }

 protected:
  AdamSettings a_;
};

class AdamW8bit : public AdamW {
 public:
  using AdamW::AdamW;
  StateLayout state() const override { return StateLayout::eight_bit(2); }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const StateLayout layout = state();
    for (const OptimizerSlice& s : slices)
      if (layout.in_bytes(*s.parameter))
        kernels::adamw_8bit(kernel_step(a_, s, step), s.value, s.grad, coded(s, 2, 0), coded(s, 2, 1));
      else adamw_update(a_, s, step, plane(s, 0), plane(s, 1));
  }
};

constexpr const char* kOtherFloats = "optimizer state is float32";
constexpr const char* kOtherBytes = "mapped to adamw_8bit, with optimizer state in bitsandbytes' format";

}  // namespace

void adamw_update(const AdamSettings& settings, const OptimizerSlice& s, const OptimizerStep& step, float* m,
                  float* v) {
  kernels::adamw(kernel_step(settings, s, step), s.value, s.grad, {m, s.value.size()}, {v, s.value.size()});
}

OptimizerRows adam_rows() {
  return {{"adamw",
           "Adam with decoupled weight decay; two floats of state per parameter",
           {make_rule<AdamW>,
            adam_arguments(),
            {{"adamw_torch"},
             {"adamw_torch_fused"},
             {"adamw_hf"},
             {"adamw_anyprecision", kOtherFloats},
             {"adamw_apex_fused"},
             {"optimi_adamw"},
             {"flash_adamw", kOtherFloats},
             {"adamw_torch_xla"},
             {"adamw_torch_npu_fused"},
             {"paged_adamw"},
             {"paged_adamw_32bit"}}}},
          {"adamw_8bit", "adamw with two bytes of state per parameter, as bitsandbytes keeps it",
           OptimizerKind(make_rule<AdamW8bit>, adam_arguments(),
                         {{"adamw_bnb_8bit"},
                          {"adamw_torch_8bit", kOtherBytes},
                          {"adamw_torch_4bit", kOtherBytes},
                          {"paged_adamw_8bit"},
                          {"ao_adamw_8bit", kOtherBytes},
                          {"ao_adamw_4bit", kOtherBytes},
                          {"ao_adamw_fp8", kOtherBytes}})
               .not_by_element()}};
}

}  // namespace dml
