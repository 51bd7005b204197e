// Muon (Jordan et al. 2024): a momentum that is orthogonalised before each step.
//
//   adjust_lr_fn: match_rms_adamw (Moonlight's, and Axolotl's): m = μm + g; u = g + μm; w −= η·(λw + 0.2·√max(rows,
//   cols)·O(u)) adjust_lr_fn: original (Keller Jordan's): m = μm + (1 − μ)g; u = (1 − μ)g + μm; w −= η·(λw + √max(1,
//   rows/cols)·O(u))
//
// It applies to hidden matrices. Embeddings, the head, modules that an adapter saves, and vectors are trained by AdamW
// with the same learning rate. (Axolotl does not train vectors.)
#include "optim/adam.h"
#include "optim/elementwise.h"
#include "optim/newton_schulz.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> muon_arguments() {
  return joined(
      adam_arguments(0.95, 0.95, 1e-8),
      {{"momentum", "decay rate of the momentum", 0.95, {}, 1},
       {"nesterov", "look ahead along the momentum", true},
       {"ns_steps", "Newton–Schulz steps", 5, {}, 100},
       {"adjust_lr_fn", "scale of a matrix's step", "match_rms_adamw", {}, 1, {"match_rms_adamw", "original"}}});
}

bool is_hidden_matrix(const Parameter& p) { return p.role == ParameterRole::hidden && trained_matrix(p).matrix; }

class Muon : public Optimizer {
 public:
  explicit Muon(const OptimizerSettings& s) : a_(read_arguments(s, muon_arguments())), adam_(a_) {}
  StateLayout state() const override {
    return StateLayout([](const Parameter& p) {
      return is_hidden_matrix(p) ? ParameterState{{{"momentum"}}, true} : ParameterState{{{"state0"}, {"state1"}}};
    });
  }
  std::size_t working_bytes(const Parameter& p) const override {
    const MatrixShape m = trained_matrix(p);
    return is_hidden_matrix(p) ? static_cast<std::size_t>(floats(m)) * sizeof(float) : 0;
  }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    for (const OptimizerSlice& s : slices)
      if (is_hidden_matrix(*s.parameter)) step_matrix(s, step);
      else adamw_update(adam_, s, step, plane(s, 0), plane(s, 1));
  }

 private:
  static std::int64_t floats(const MatrixShape& m) { return m.rows * m.cols + newton_schulz_floats(m.rows, m.cols); }

  void step_matrix(const OptimizerSlice& s, const OptimizerStep& step) const {
    const SliceStep k(s, step, a_.real("weight_decay"));
    const MatrixShape shape = trained_matrix(*s.parameter);
    const bool original = a_.word("adjust_lr_fn") == "original", nesterov = a_.flag("nesterov");
    const float mu = a_.real("momentum"), fresh = original ? 1 - mu : 1;
    float *memory = working_memory(floats(shape)), *m = s.state.data(), *w = s.value.data();
    const Mat u{memory, shape.rows, shape.cols};
    const float* grad = s.grad.data();
    each_element(s.size(), [=](std::int64_t i) {
      const float g = fresh * grad[i] * k.scale;
      m[i] = mu * m[i] + g;
      u.data[i] = nesterov ? g + mu * m[i] : m[i];
    });
    newton_schulz(u, static_cast<int>(a_.whole_number("ns_steps")), memory + u.size());
    const auto rows = static_cast<double>(shape.rows), cols = static_cast<double>(shape.cols);
    const float factor =
        as_float(k.rate * (original ? std::sqrt(std::max(1.0, rows / cols)) : 0.2 * std::sqrt(std::max(rows, cols))));
    each_element(s.size(), [=](std::int64_t i) {
      w[i] -= k.rate * k.decay * w[i];
      w[i] -= factor * u.data[i];
    });
  }

  Arguments a_;
  AdamSettings adam_;
};

}  // namespace

OptimizerRows muon_rows() {
  return {{"muon", "momentum with orthogonal steps for hidden matrices; one float of state per parameter",
           OptimizerKind(make_rule<Muon>, muon_arguments())
               .with_notice("AdamW trains embeddings, the head and parameters of one dimension")
               .not_by_element()}};
}

}  // namespace dml
