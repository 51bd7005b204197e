// Adafactor (Shazeer & Stern 2018), with the options and defaults of transformers' Trainer, which sets the learning
// rate.
//
//   ρ = 1 − t^−decay; V = ρV + (1 − ρ)(g² + ε1), of matrices as row and column means; u = g/√V;
//   u /= max(1, rms(u)/clip); η' = base · (scale_parameter ? max(ε2, rms(w)) : 1); w −= η'·λ·w; w −= η'·u
//
// With beta1, a moving average of η'·u is used instead of η'·u. relative_step: base = min(warmup_init ? 1e-6·t : 0.01,
// 1/√t) instead of the learning rate.
#include "core/error.h"
#include "optim/arguments.h"
#include "optim/factored.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> adafactor_arguments() {
  return {weight_decay_argument(),
          {"eps", "added to squared gradients", 1e-30, {}, 1},
          {"eps2", "least scale with scale_parameter", 1e-3, {}, 1},
          {"clip_threshold", "root mean square above which a tensor's step is reduced", 1.0},
          {"decay_rate", "the decay rate of the second moment is 1 − t^−decay_rate", 0.8},
          {"beta1", "decay rate of a mean of the steps; 0: none", 0.0, {}, 1},
          {"scale_parameter", "learning rate relative to the root mean square of the tensor", false},
          {"relative_step", "learning rate by the step number; learning_rate and lr_scheduler have no effect", false},
          {"warmup_init", "with relative_step: begin with a low learning rate", false}};
}

/// decay_rate is given with either sign.
OptimizerSettings positive_decay(OptimizerSettings s) {
  if (s.args.contains("decay_rate") && s.args["decay_rate"].is_number() && s.args["decay_rate"].get<double>() < 0)
    s.args["decay_rate"] = -s.args["decay_rate"].get<double>();
  return s;
}

class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const OptimizerSettings& s) : a_(read_arguments(positive_decay(s), adafactor_arguments())) {
    if (a_.flag("warmup_init") && !a_.flag("relative_step"))
      throw UserError("optim_args: warmup_init needs relative_step: true");
  }
  StateLayout state() const override {
    return StateLayout([mean = averages_steps()](const Parameter& p) {
      const MatrixShape m = trained_matrix(p);
      ParameterState out{.whole = true};
      if (m.matrix) out.tensors = {{"row_mean", DType::f32, 0, {m.rows}}, {"col_mean", DType::f32, 0, {m.cols}}};
      else out.tensors = {{"square"}};
      if (mean) out.tensors.push_back({"mean"});
      return out;
    });
  }
  std::string advice() const override {
    return a_.flag("relative_step")
               ? "relative_step: adafactor sets its own learning rate; learning_rate and lr_scheduler have no effect"
               : "";
  }
  std::size_t working_bytes(const Parameter& p) const override {
    const MatrixShape m = trained_matrix(p);
    return static_cast<std::size_t>(m.matrix ? m.rows + m.cols : 0) * sizeof(float);
  }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    for (const OptimizerSlice& s : slices) step_slice(s, step);
  }

 private:
  bool averages_steps() const { return a_.number("beta1") > 0; }

  double rate_of(const OptimizerSlice& s, const OptimizerStep& step) const {
    const auto t = static_cast<double>(step.number + 1);
    double rate = step.learning_rate;
    if (a_.flag("relative_step")) rate = std::min(a_.flag("warmup_init") ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
    if (a_.flag("scale_parameter")) {
      const float* w = s.value.data();
      const double squares = sum_in_order(s.size(), [=](std::int64_t i) { return w[i] * w[i]; });
      rate *= std::max(a_.number("eps2"), std::sqrt(squares / static_cast<double>(s.size())));
    }
    return rate * s.parameter->learning_rate_scale;
  }

  void step_slice(const OptimizerSlice& s, const OptimizerStep& step) const {
    const MatrixShape m = trained_matrix(*s.parameter);
    const double fresh = std::pow(static_cast<double>(step.number + 1), -a_.number("decay_rate"));  // 1 − ρ
    const float rho = as_float(1 - fresh), rest = as_float(fresh), eps = a_.real("eps"),
                scale = as_float(step.gradient_scale);
    const float* grad = s.grad.data();
    const std::int64_t cols = m.cols;
    const std::int64_t before = m.matrix ? m.rows + m.cols : s.size();  // floats of state before the moving average
    if (!m.matrix) {
      float* v = s.state.data();
      each_element(s.size(), [=](std::int64_t i) {
        const float g = grad[i] * scale;
        v[i] = rho * v[i] + rest * (g * g + eps);
      });
      return apply(s, step, before, [=](std::int64_t i, std::int64_t) { return grad[i] * scale / std::sqrt(v[i]); });
    }
    float *rows = s.state.data(), *columns = rows + m.rows;
    update_factors(m, 1 - fresh, rows, columns, [=](std::int64_t i, std::int64_t j) {
      const float g = grad[i * cols + j] * scale;
      return g * g + eps;
    });
    const InverseRoot root = inverse_root(m, rows, columns, working_memory(m.rows + m.cols));
    apply(s, step, before, [=](std::int64_t at, std::int64_t row) {
      return grad[at] * scale * root.row[row] * root.col[at - row * cols];
    });
  }

  /// direction(element, row) returns u before clipping.
  template <class F>
  void apply(const OptimizerSlice& s, const OptimizerStep& step, std::int64_t before, F direction) const {
    const std::int64_t cols = trained_matrix(*s.parameter).cols;
    const double squares = sum_in_order(s.size(), [=](std::int64_t i) {
      const float u = direction(i, i / cols);
      return u * u;
    });
    const double rms = std::sqrt(squares / static_cast<double>(s.size()));
    const double rate = rate_of(s, step);
    const float factor = as_float(rate / std::max(1.0, rms / a_.number("clip_threshold"))),
                decay = s.parameter->decay ? as_float(rate * a_.number("weight_decay")) : 0, beta1 = a_.real("beta1");
    float *w = s.value.data(), *mean = averages_steps() ? s.state.data() + before : nullptr;
    each_element(s.size(), [=](std::int64_t i) {
      float u = factor * direction(i, i / cols);
      if (mean) u = mean[i] = beta1 * mean[i] + (1 - beta1) * u;
      w[i] -= decay * w[i] + u;  // one rounding, since steps may be as small as the last digit of a weight
    });
  }

  Arguments a_;
};

}  // namespace

OptimizerRows adafactor_rows() {
  return {{"adafactor", "Adam's second moment by the means of rows and columns: almost no state",
           OptimizerKind(make_rule<Adafactor>, adafactor_arguments()).not_by_element()}};
}

}  // namespace dml
