// GaLore (Zhao et al. 2024): AdamW on gradients projected on their leading singular vectors, which are recomputed every
// update_proj_gap steps, while the moments are kept. update = scale · (m/(√v + ε) projected back); w −= η·update; w −=
// η·λ·w. It applies to the matrices of optim_target_modules; AdamW trains everything else.
#include "kernels/eigen.h"
#include "optim/low_rank.h"

namespace dml {
namespace {

std::vector<Argument> galore_arguments() {
  using From = Argument::From;
  return joined(adam_arguments(),
                {{"rank", "of the projected gradient", 128.0, From::args, 65536},
                 {"update_proj_gap", "steps between two bases", 200.0},
                 {"scale", "of a step", 0.25},
                 {"proj_type", "which side is projected: the shorter one", "std", From::args, 1, {"std"}}});
}

class GaLore : public Optimizer {
 public:
  explicit GaLore(const OptimizerSettings& s)
      : a_(s, galore_arguments()),
        adam_(a_),
        targets_(std::make_shared<TargetModules>(s.target_modules, "galore_adamw")) {
    if (a_.whole_number("rank") < 1 || a_.whole_number("update_proj_gap") < 1)
      throw UserError("optim_args: rank and update_proj_gap must be at least 1");
  }
  StateLayout state() const override {
    return StateLayout([targets = targets_, rank = a_.whole_number("rank")](const Parameter& p) {
      if (!targets->contains(p)) return ParameterState{{{"state0"}, {"state1"}}};
      const Projection to(trained_matrix(p), rank);
      ParameterState out{.whole = true};
      out.tensors = {{"basis", DType::f32, 0, {to.rank, to.short_side()}}};
      for (const char* name : {"state0", "state1"}) out.tensors.push_back({name, DType::f32, 0, {to.projected()}});
      return out;
    });
  }
  std::size_t working_bytes(const Parameter& p) const override {
    if (!targets_->contains(p)) return 0;
    const Projection to = projection(p);
    return static_cast<std::size_t>(to.projected() + to.rows * to.cols) * sizeof(float);
  }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    for (const OptimizerSlice& s : slices)
      if (targets_->contains(*s.parameter)) step_matrix(s, step);
      else adamw_update(adam_, s, step, plane(s, 0), plane(s, 1));
  }

 private:
  Projection projection(const Parameter& p) const { return {trained_matrix(p), a_.whole_number("rank")}; }

  void step_matrix(const OptimizerSlice& s, const OptimizerStep& step) const {
    const SliceStep k(s, step, as_float(adam_.weight_decay));
    const Projection to = projection(*s.parameter);
    float *basis = s.state.data(), *m = basis + to.basis(), *v = m + to.projected(), *w = s.value.data(),
          *low = working_memory(to.projected() + s.size()), *full = low + to.projected();
    if (step.number % a_.whole_number("update_proj_gap") == 0)
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

  Arguments a_;
  AdamSettings adam_;
  std::shared_ptr<const TargetModules> targets_;
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
