// CAME (Luo et al. 2023): Adafactor's direction with a momentum, divided by the deviation of the direction from the
// momentum.
//
//   V by row and column means with β2 of g² + ε1; u = g/√V, reduced to a root mean square of at most `clip_threshold`;
//   m = β1·m + (1 − β1)·u; U by row and column means with β3 of (u − m)² + ε2; w −= η·(λw + m/√U); of vectors w −=
//   η·(λw + m)
#include "optim/arguments.h"
#include "optim/factored.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> came_arguments() {
  return joined(adam_arguments(0.9, 0.999, 1e-30),
                {{"beta3", "decay rate of the instability", 0.9999, &OptimizerSettings::beta3, 1},
                 {"eps2", "added to the squared instability", 1e-16, &OptimizerSettings::epsilon2, 1},
                 {"clip_threshold", "root mean square above which a tensor's step is reduced", 1.0}});
}

class Came : public Optimizer {
 public:
  explicit Came(const OptimizerSettings& s) : a_(read_arguments(s, came_arguments())) {}
  StateLayout state() const override {
    return StateLayout([](const Parameter& p) {
      const MatrixShape m = trained_matrix(p);
      if (!m.matrix) return ParameterState{{{"mean"}, {"square"}}, true};
      ParameterState out{.whole = true};
      for (const char* name : {"row_mean", "row_instability"}) out.tensors.push_back({name, DType::f32, 0, {m.rows}});
      for (const char* name : {"col_mean", "col_instability"}) out.tensors.push_back({name, DType::f32, 0, {m.cols}});
      out.tensors.push_back({"mean"});
      return out;
    });
  }
  std::size_t working_bytes(const Parameter& p) const override {
    const MatrixShape m = trained_matrix(p);
    return static_cast<std::size_t>(m.matrix ? 2 * (m.rows + m.cols) : 0) * sizeof(float);
  }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    for (const OptimizerSlice& s : slices)
      trained_matrix(*s.parameter).matrix ? step_matrix(s, step) : step_vector(s, step);
  }

 private:
  /// 1 / max(1, rms / clip).
  template <class F>
  float clip(std::int64_t size, F direction) const {
    const double squares = sum_in_order(size, [=](std::int64_t i) { return direction(i) * direction(i); });
    return as_float(1 / std::max(1.0, std::sqrt(squares / static_cast<double>(size)) / a_.number("clip_threshold")));
  }

  void step_vector(const OptimizerSlice& s, const OptimizerStep& step) const {
    const SliceStep k(s, step, a_.real("weight_decay"));
    const float beta1 = a_.real("beta1"), beta2 = a_.real("beta2"), eps = a_.real("eps"),
                fresh1 = as_float(1 - a_.number("beta1")), fresh2 = as_float(1 - a_.number("beta2"));
    float *w = s.value.data(), *m = plane(s, 0), *v = plane(s, 1);
    const float* grad = s.grad.data();
    each_element(s.size(), [=](std::int64_t i) {
      const float g = grad[i] * k.scale;
      v[i] = beta2 * v[i] + fresh2 * (g * g + eps);
    });
    auto direction = [=](std::int64_t i) { return grad[i] * k.scale / std::sqrt(v[i]); };
    const float factor = clip(s.size(), direction);
    each_element(s.size(), [=](std::int64_t i) {
      m[i] = beta1 * m[i] + fresh1 * factor * direction(i);
      w[i] -= k.rate * k.decay * w[i];
      w[i] -= k.rate * m[i];
    });
  }

  void step_matrix(const OptimizerSlice& s, const OptimizerStep& step) const {
    const SliceStep k(s, step, a_.real("weight_decay"));
    const MatrixShape shape = trained_matrix(*s.parameter);
    const std::int64_t rows = shape.rows, cols = shape.cols;
    const float beta1 = a_.real("beta1"), fresh1 = as_float(1 - a_.number("beta1")), eps = a_.real("eps"),
                eps2 = a_.real("eps2");
    float *row_mean = s.state.data(), *row_away = row_mean + rows, *col_mean = row_away + rows,
          *col_away = col_mean + cols, *m = col_away + cols, *w = s.value.data(),
          *memory = working_memory(2 * (rows + cols));
    const float* grad = s.grad.data();
    update_factors(shape, a_.number("beta2"), row_mean, col_mean, [=](std::int64_t i, std::int64_t j) {
      const float g = grad[i * cols + j] * k.scale;
      return g * g + eps;
    });
    const InverseRoot v = inverse_root(shape, row_mean, col_mean, memory);
    auto direction = [=](std::int64_t i) { return grad[i] * k.scale * v.row[i / cols] * v.col[i % cols]; };
    const float factor = clip(s.size(), direction);
    each_element(s.size(), [=](std::int64_t i) { m[i] = beta1 * m[i] + fresh1 * factor * direction(i); });
    update_factors(shape, a_.number("beta3"), row_away, col_away, [=](std::int64_t i, std::int64_t j) {
      const float away = factor * direction(i * cols + j) - m[i * cols + j];
      return away * away + eps2;
    });
    const InverseRoot u = inverse_root(shape, row_away, col_away, memory + rows + cols);
    each_element(s.size(), [=](std::int64_t i) {
      w[i] -= k.rate * k.decay * w[i];
      w[i] -= k.rate * m[i] * u.row[i / cols] * u.col[i % cols];
    });
  }

  Arguments a_;
};

}  // namespace

OptimizerRows came_rows() {
  return {{"came_pytorch",
           "Adafactor's direction with a momentum, divided by how far it strays; one float of state per parameter",
           OptimizerKind(make_rule<Came>, came_arguments(), {{"came"}}).not_by_element()}};
}

}  // namespace dml
