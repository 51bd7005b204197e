// Schedule-free AdamW and SGD (Defazio et al. 2024). Steps update z; gradients are computed at y, between z and the
// average x of all z; the result is x. For k = 0, 1, …, with step length l, its maximum so far lmax, and direction n:
//
//   c = (k+1)^r·lmax^p / Σ of these; y += c·(z − y) + l·(β1·(1 − c) − 1)·n; z −= l·n
//   AdamW: v = β2·v + (1 − β2)·g², n = g/(√(v/(1 − β2^{k+1})) + ε) + λy; SGD: n = g + λy
//
// During training the values are y. For evaluation and saving they are x = y + (1 − 1/β1)·(z − y); y is stored
// meanwhile, since it cannot be recomputed exactly. A checkpoint has x as the weights, and z, y, v and the counters as
// state.
#include <cstring>

#include "core/error.h"
#include "optim/arguments.h"
#include "optim/elementwise.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> averaging_arguments() {
  return {{"r", "power of the step number in the weights of the average", 0.0},
          {"weight_lr_power", "power of the learning rate in the weights of the average", 2.0}};
}
std::vector<OptimizerArgument> adam_kind() { return joined(adam_arguments(), averaging_arguments()); }
std::vector<OptimizerArgument> sgd_kind() {
  return joined(
      {weight_decay_argument(), {"momentum", "where gradients are computed: 0 at z, 1 at the average", 0.9, {}, 1}},
      averaging_arguments());
}

/// Counters of a slice, stored in its state before the planes.
struct Counters {
  double steps = 0, weights = 0, largest_rate = 0;
};
constexpr std::int64_t kCounterFloats = sizeof(Counters) / sizeof(float);

Counters counters_of(const OptimizerSlice& s) {
  double numbers[3];
  std::memcpy(numbers, s.state.data(), sizeof numbers);
  return {numbers[0], numbers[1], numbers[2]};
}

class ScheduleFree : public Optimizer {
 public:
  ScheduleFree(const OptimizerSettings& s, const std::vector<OptimizerArgument>& arguments, const char* beta, bool adam)
      : a_(read_arguments(s, arguments)), beta_(a_.number(beta)), adam_(adam), schedule_(s.schedule) {
    if (beta_ <= 0) throw UserError("optimizer: {} of a schedule-free optimizer must be above 0", beta);
  }
  StateLayout state() const override {
    return StateLayout([adam = adam_](const Parameter&) {
      ParameterState out{{{"counters", DType::f64, 0, {3}}, {"z"}, {"y"}}};
      if (adam) out.tensors.push_back({"v"});
      return out;
    });
  }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    for (const OptimizerSlice& s : slices) step_slice(s, step);
  }

  bool averages() const override { return true; }
  std::string advice() const override {
    if (schedule_.starts_with("constant")) return "";
    return fmt::format(
        "a schedule-free optimizer averages its steps and needs no decay of the learning rate: use lr_scheduler: "
        "constant, not {}",
        schedule_);
  }
  void switch_to_average(std::span<const OptimizerSlice> slices) const override {
    const float factor = as_float(1 - 1 / beta_);
    for (const OptimizerSlice& s : slices) {
      float *w = s.value.data(), *z = plane(s, 0, kCounterFloats), *y = plane(s, 1, kCounterFloats);
      const bool started = counters_of(s).steps > 0;
      each_element(s.size(), [=](std::int64_t i) {
        y[i] = w[i];
        if (started) w[i] += factor * (z[i] - w[i]);
      });
    }
  }
  void switch_to_training_point(std::span<const OptimizerSlice> slices) const override {
    for (const OptimizerSlice& s : slices)
      each_element(s.size(), [w = s.value.data(), y = plane(s, 1, kCounterFloats)](std::int64_t i) { w[i] = y[i]; });
  }

 private:
  void step_slice(const OptimizerSlice& s, const OptimizerStep& step) const {
    const SliceStep k(s, step, a_.real("weight_decay"));
    Counters count = counters_of(s);
    const bool first = count.steps == 0;
    count.steps += 1;
    const double rate = step.learning_rate * s.parameter->learning_rate_scale;
    count.largest_rate = std::max(count.largest_rate, rate);
    const double weight =
        std::pow(count.steps, a_.number("r")) * std::pow(count.largest_rate, a_.number("weight_lr_power"));
    count.weights += weight;
    std::memcpy(s.state.data(), &count, sizeof count);
    const double share = count.weights > 0 ? weight / count.weights : 0;
    const float c = as_float(share), l = as_float(rate), along = as_float(rate * (beta_ * (1 - share) - 1));
    float *y = s.value.data(), *z = plane(s, 0, kCounterFloats), *v = adam_ ? plane(s, 2, kCounterFloats) : nullptr;
    const float* grad = s.grad.data();
    const float beta2 = adam_ ? a_.real("beta2") : 0, fresh2 = adam_ ? as_float(1 - a_.number("beta2")) : 0,
                eps = adam_ ? a_.real("eps") : 0,
                bias = adam_ ? as_float(1 - std::pow(a_.number("beta2"), count.steps)) : 1;
    each_element(s.size(), [=](std::int64_t i) {
      if (first) z[i] = y[i];
      float n = grad[i] * k.scale;
      if (v) {
        v[i] = beta2 * v[i] + fresh2 * n * n;
        n /= std::sqrt(v[i] / bias) + eps;
      }
      n += k.decay * y[i];
      y[i] += c * (z[i] - y[i]);
      y[i] += along * n;
      z[i] -= l * n;
    });
  }

  Arguments a_;
  double beta_;
  bool adam_;
  std::string schedule_;
};

struct ScheduleFreeAdamW : ScheduleFree {
  explicit ScheduleFreeAdamW(const OptimizerSettings& s) : ScheduleFree(s, adam_kind(), "beta1", true) {}
};
struct ScheduleFreeSgd : ScheduleFree {
  explicit ScheduleFreeSgd(const OptimizerSettings& s) : ScheduleFree(s, sgd_kind(), "momentum", false) {}
};

}  // namespace

OptimizerRows schedule_free_rows() {
  return {
      {"schedule_free_adamw",
       "AdamW whose result is an average of its steps, for lr_scheduler: constant; three floats of state per parameter",
       OptimizerKind(make_rule<ScheduleFreeAdamW>, adam_kind()).not_by_element()},
      {"schedule_free_sgd",
       "gradient descent whose result is an average of its steps; two floats of state per parameter",
       OptimizerKind(make_rule<ScheduleFreeSgd>, sgd_kind()).not_by_element()}};
}

}  // namespace dml
