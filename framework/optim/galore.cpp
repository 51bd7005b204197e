// GaLore (Zhao et al. 2024): AdamW on gradients projected on their leading singular vectors, which are recomputed every
// update_proj_gap steps, while the moments are kept. update = scale · (m/(√v + ε) projected back); w −= η·update; w −=
// η·λ·w. It applies to the matrices of optim_target_modules; everything else is trained with update = m/(√v + ε).
#include "kernels/eigen.h"
#include "optim/elementwise.h"
#include "optim/low_rank.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> galore_arguments() {
  return joined(joined(adam_arguments(0.9, 0.999, 1e-6), low_rank_arguments(128, "steps between two bases")),
                {{"scale", "of a step", 0.25}});
}

class GaLore : public LowRankAdamW {
 public:
  explicit GaLore(const OptimizerSettings& s) : LowRankAdamW(s, galore_arguments(), "galore_adamw") {}

 private:
  std::int64_t working_floats(const Projection& to) const override { return to.projected() + to.rows * to.cols; }

  void step_matrix(const OptimizerSlice& s, const OptimizerStep& step) const override {
    const SliceStep k(s, step, as_float(adam_.weight_decay));
    const Projection to = projection(*s.parameter);
    float *basis = s.state.data(), *m = basis + to.basis(), *v = m + to.projected(), *w = s.value.data(),
          *low = working_memory(working_floats(to)), *full = low + to.projected();
    if (sets_basis(step, to, basis))
      kernels::leading_singular_vectors({s.grad.data(), to.rows, to.cols}, !to.right, to.rank, basis);
    project(to, s.grad.data(), basis, low);
    each_element(to.projected(), [=](std::int64_t i) { low[i] *= k.scale; });
    const float bias = adam_direction(adam_, step.number + 1, to.projected(), low, m, v, low),
                factor = k.rate * bias * a_.real("scale");
    project_back(to, low, basis, full);
    each_element(s.size(), [=](std::int64_t i) {
      w[i] -= factor * full[i];
      w[i] -= k.rate * k.decay * w[i];
    });
  }
};

}  // namespace

OptimizerRows galore_rows() {
  return {{"galore_adamw", "AdamW on gradients projected on their leading singular vectors; needs optim_target_modules",
           OptimizerKind(make_rule<GaLore>, galore_arguments(),
                         {{"galore_adamw_layerwise", "updated after the step like galore_adamw"},
                          {"galore_adamw_8bit", "the state of the projected gradient is float32"},
                          {"galore_adamw_8bit_layerwise", "the state of the projected gradient is float32"}})
               .with_targets()
               .not_by_element()}};
}

}  // namespace dml
