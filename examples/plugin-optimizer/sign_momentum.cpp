// An optimizer: the sign of a moving average of the gradient (Bernstein et al. 2018, "signSGD: compressed optimization
// for non-convex problems", Signum).
//
//   m ← β m + (1 − β) g;  w ← w − η (sign m + λ w)
#include <dml/plugin.h>

namespace {

using namespace dml::plugin;

class SignMomentum : public Optimizer {
 public:
  explicit SignMomentum(const Json& arguments) : beta_(arguments["beta"]), decay_(arguments["weight_decay"]) {}

  StateNeeds state(const Parameter&) const override { return {.per_element = 1}; }
  void step(const Slice& s, const Step& step) const override {
    const auto beta = static_cast<float>(beta_), scale = static_cast<float>(step.gradient_scale),
               rate = static_cast<float>(s.learning_rate), decay = s.parameter.decays ? static_cast<float>(decay_) : 0;
    step.threads.ranges(static_cast<std::int64_t>(s.value.size()), [&](std::int64_t first, std::int64_t last) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        float& m = s.state[i];
        m = beta * m + (1 - beta) * scale * s.gradient[i];
        s.value[i] -= rate * (static_cast<float>((m > 0) - (m < 0)) + decay * s.value[i]);
      }
    });
  }

 private:
  double beta_, decay_;
};

}  // namespace

DML_PLUGIN("sign_momentum", "1.0") {
  registry.add(Row<Optimizer>{"sign_momentum",
                              "sign of the momentum; one float of state per parameter",
                              [](const Json& arguments) { return std::make_unique<SignMomentum>(arguments); },
                              {{"beta", "decay rate of the momentum", 0.9, 1, {}, "adam_beta1"},
                               {"weight_decay", "decoupled weight decay", 0.0, 1000, {}, "weight_decay"}},
                              {"signum"}});
}
