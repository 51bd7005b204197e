#include "optim/optimizer.h"

#include <cmath>
#include <initializer_list>

#include "core/error.h"
#include "kernels/optimizer_step.h"

namespace dml {
namespace {

float as_float(double x) { return static_cast<float>(x); }

/// The settings with optim_args worked in; arguments the optimizer does not have are refused.
struct Arguments {
  double weight_decay, beta1, beta2, epsilon, momentum = 0;

  Arguments(const OptimizerSettings& s, std::vector<std::string> known)
      : weight_decay(s.weight_decay), beta1(s.beta1), beta2(s.beta2), epsilon(s.epsilon) {
    for (auto& [key, value] : s.args.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        throw UserError("optim_args: unknown argument '{}'{}", key, did_you_mean(key, known));
      if (key == "betas") {
        if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number())
          throw UserError("optim_args: betas must be two numbers, is {}", dump(value));
        beta1 = value[0].get<double>();
        beta2 = value[1].get<double>();
        continue;
      }
      double number = json_number(s.args, key.c_str(), 0, "optim_args");
      if (key == "beta1") beta1 = number;
      if (key == "beta2") beta2 = number;
      if (key == "eps" || key == "epsilon") epsilon = number;
      if (key == "momentum") momentum = number;
      if (key == "weight_decay") weight_decay = number;
    }
    auto check = [](const char* name, double value, double below) {
      if (!(value >= 0 && value < below))
        throw UserError("optimizer: {} must be in [0, {}), is {}", name, below, value);
    };
    check("beta1", beta1, 1);
    check("beta2", beta2, 1);
    check("momentum", momentum, 1);
    check("epsilon", epsilon, 1);
    check("weight_decay", weight_decay, 1000);
  }
};

/// The state of plane `plane`, for a slice that has it in bytes.
kernels::CodedState coded(const StateLayout& layout, const OptimizerSlice& s, std::size_t plane) {
  auto size = static_cast<std::int64_t>(s.value.size());
  auto parts = layout.parts(s.parameter_size, size);
  auto* bytes = reinterpret_cast<std::uint8_t*>(s.state.data());
  const auto &scales = parts[plane], &codes = parts[parts.size() / 2 + plane];
  return {{bytes + codes.offset, s.value.size()},
          {reinterpret_cast<float*>(bytes + scales.offset), static_cast<std::size_t>(scales.entries(size))}};
}

class AdamW : public Optimizer {
 public:
  explicit AdamW(const OptimizerSettings& s) : a_(s, {"betas", "beta1", "beta2", "eps", "epsilon", "weight_decay"}) {}
  StateLayout state() const override { return 2; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    auto t = static_cast<double>(step.number + 1);
    kernels::AdamWStep k{};
    k.beta1 = as_float(a_.beta1);
    k.beta2 = as_float(a_.beta2);
    k.epsilon = as_float(a_.epsilon);
    k.bias1 = as_float(1 - std::pow(a_.beta1, t));
    k.bias2 = as_float(1 - std::pow(a_.beta2, t));
    k.gradient_scale = as_float(step.gradient_scale);
    for (const OptimizerSlice& s : slices) {
      k.learning_rate = as_float(step.learning_rate * s.learning_rate_scale);
      k.weight_decay = s.decay ? as_float(a_.weight_decay) : 0;
      if (StateLayout layout = state(); layout.in_bytes(s.parameter_size))
        kernels::adamw_8bit(k, s.value, s.grad, coded(layout, s, 0), coded(layout, s, 1));
      else kernels::adamw(k, s.value, s.grad, s.state.first(s.value.size()), s.state.last(s.value.size()));
    }
  }

 private:
  Arguments a_;
};

class AdamW8bit : public AdamW {
 public:
  using AdamW::AdamW;
  StateLayout state() const override { return StateLayout::eight_bit(2); }
};

class Lion : public Optimizer {
 public:
  explicit Lion(const OptimizerSettings& s) : a_(s, {"betas", "beta1", "beta2", "weight_decay"}) {}
  StateLayout state() const override { return 1; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    auto beta1 = as_float(a_.beta1), beta2 = as_float(a_.beta2), scale = as_float(step.gradient_scale);
    for (const OptimizerSlice& s : slices) {
      float rate = as_float(step.learning_rate * s.learning_rate_scale),
            decay = s.decay ? as_float(a_.weight_decay) : 0;
      if (StateLayout layout = state(); layout.in_bytes(s.parameter_size))
        kernels::lion_8bit(rate, beta1, beta2, decay, scale, s.value, s.grad, coded(layout, s, 0));
      else kernels::lion(rate, beta1, beta2, decay, scale, s.value, s.grad, s.state);
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

class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerSettings& s) : a_(s, {"momentum", "weight_decay"}) {}
  StateLayout state() const override { return 1; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    for (const OptimizerSlice& s : slices)
      kernels::sgd(as_float(step.learning_rate * s.learning_rate_scale), as_float(a_.momentum),
                   s.decay ? as_float(a_.weight_decay) : 0, as_float(step.gradient_scale), s.value, s.grad, s.state);
  }

 private:
  Arguments a_;
};

template <class T>
std::unique_ptr<Optimizer> make(const OptimizerSettings& settings) {
  return std::make_unique<T>(settings);
}

}  // namespace

Registry<OptimizerFactory>& optimizers() {
  static Registry<OptimizerFactory> registry(
      "optimizer",
      {{"adamw", "Adam with decoupled weight decay; two floats of state per parameter", make<AdamW>},
       {"adamw_8bit", "adamw with two bytes of state per parameter, as bitsandbytes keeps it", make<AdamW8bit>},
       {"lion", "sign of an interpolated momentum; one float of state per parameter", make<Lion>},
       {"lion_8bit", "lion with one byte of state per parameter", make<Lion8bit>},
       {"sgd", "gradient descent, with momentum by optim_args; one float of state per parameter", make<Sgd>}});
  return registry;
}

}  // namespace dml
