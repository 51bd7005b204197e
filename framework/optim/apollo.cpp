// APOLLO (Zhu et al. 2024): scales the gradient by a factor per channel, or per tensor (apollo_mini), which AdamW on a
// random projection of the gradient determines. R = projected gradient, N = its m/(√v + ε); factor = ‖N‖/(‖R‖ + 1e-8)
// along the longer side; update = factor·g, its norm limited to 1.01 times that of the previous update that was not 0;
// w −= η·√scale·update; w −= η·λ·w.
//
// The elements of the projection are normal/√rank, addressed by (seed, parameter, step / gap).
#include <cstring>

#include "core/hash.h"
#include "core/random.h"
#include "optim/elementwise.h"
#include "optim/low_rank.h"
#include "optim/rules.h"

namespace dml {
namespace {

std::vector<OptimizerArgument> apollo_arguments(int rank, double scale, const char* type) {
  return joined(joined(adam_arguments(0.9, 0.999, 1e-6), low_rank_arguments(rank, "steps between two projections")),
                {{"scale", "factor of a step, of which the square root is used", scale},
                 {"scale_type", "a learning rate per channel or per tensor", type, {}, 1, {"channel", "tensor"}},
                 {"proj", "kind of projection", "random", {}, 1, {"random"}}});
}
std::vector<OptimizerArgument> apollo_kind() { return apollo_arguments(128, 1, "channel"); }
std::vector<OptimizerArgument> mini_kind() { return apollo_arguments(1, 128, "tensor"); }

class Apollo : public LowRankAdamW {
 public:
  Apollo(const OptimizerSettings& s, const std::vector<OptimizerArgument>& arguments, const char* name)
      : LowRankAdamW(s, arguments, name, {{"norm", DType::f64, 0, {1}}}), seed_(s.seed) {}

 private:
  static std::int64_t channels(const Projection& p) { return std::max(p.rows, p.cols); }
  std::int64_t working_floats(const Projection& p) const override { return 2 * p.projected() + channels(p); }

  void draw(const OptimizerSlice& s, const Projection& to, std::int64_t number, float* basis) const {
    const std::string& name = s.parameter->name;
    const Random random(seed_, Purpose::projection, hash64(name.data(), name.size()),
                        static_cast<std::uint32_t>(number));
    const float factor = as_float(1 / std::sqrt(static_cast<double>(to.rank)));
    each_element(to.basis(), [=](std::int64_t i) { basis[i] = factor * random.normal(static_cast<std::uint64_t>(i)); });
  }

  /// Sets factors to ‖N‖/(‖R‖ + 1e-8) of every channel, or all of them to that of the tensor.
  void set_factors(const Projection& to, const float* low, const float* direction, float* factors) const {
    const std::int64_t n = channels(to), step = to.right ? to.rank : 1, along = to.right ? 1 : to.cols;
    auto ratio = [](double squares_n, double squares_r) {
      return as_float(std::sqrt(squares_n) / (std::sqrt(squares_r) + 1e-8));
    };
    if (a_.word("scale_type") == "tensor") {
      const float all = ratio(sum_in_order(to.projected(), [=](std::int64_t i) { return direction[i] * direction[i]; }),
                              sum_in_order(to.projected(), [=](std::int64_t i) { return low[i] * low[i]; }));
      return each_element(n, [=](std::int64_t c) { factors[c] = all; });
    }
    each_element(n, [=, rank = to.rank](std::int64_t c) {
      double squares_n = 0, squares_r = 0;
      for (std::int64_t j = 0; j < rank; ++j) {
        const std::int64_t at = c * step + j * along;
        squares_n += static_cast<double>(direction[at]) * direction[at];
        squares_r += static_cast<double>(low[at]) * low[at];
      }
      factors[c] = ratio(squares_n, squares_r);
    });
  }

  void step_matrix(const OptimizerSlice& s, const OptimizerStep& step) const override {
    const SliceStep k(s, step, as_float(adam_.weight_decay));
    const Projection to = projection(*s.parameter);
    const std::int64_t cols = to.cols;
    double norm = 0;
    std::memcpy(&norm, s.state.data(), sizeof norm);
    float *basis = s.state.data() + 2, *m = basis + to.basis(), *v = m + to.projected(), *w = s.value.data(),
          *low = working_memory(working_floats(to)), *direction = low + to.projected(),
          *factors = direction + to.projected();
    const float* grad = s.grad.data();
    if (sets_basis(step, to, basis)) draw(s, to, step.number / a_.whole_number("update_proj_gap"), basis);
    project(to, grad, basis, low);
    each_element(to.projected(), [=](std::int64_t i) { low[i] *= k.scale; });
    const float bias = adam_direction(adam_, step.number + 1, to.projected(), low, m, v, direction);
    set_factors(to, low, direction, factors);
    auto update = [=, by_row = to.right](std::int64_t i) {
      return grad[i] * k.scale * factors[by_row ? i / cols : i % cols];
    };
    double now = std::sqrt(sum_in_order(s.size(), [=](std::int64_t i) { return update(i) * update(i); }));
    const double limiter = norm > 0 ? std::max(now / (norm + 1e-8), 1.01) / 1.01 : 1;
    now /= limiter;
    if (now > 0) std::memcpy(s.state.data(), &now, sizeof now);
    const float factor = as_float(k.rate * bias * std::sqrt(a_.number("scale")) / limiter);
    each_element(s.size(), [=](std::int64_t i) {
      w[i] -= factor * update(i);
      w[i] -= k.rate * k.decay * w[i];
    });
  }

  std::uint64_t seed_;
};

struct ApolloAdamW : Apollo {
  explicit ApolloAdamW(const OptimizerSettings& s) : Apollo(s, apollo_kind(), "apollo_adamw") {}
};
struct ApolloMini : Apollo {
  explicit ApolloMini(const OptimizerSettings& s) : Apollo(s, mini_kind(), "apollo_mini") {}
};

}  // namespace

OptimizerRows apollo_rows() {
  return {{"apollo_adamw", "a learning rate per channel from AdamW on a random projection; needs optim_target_modules",
           OptimizerKind(make_rule<ApolloAdamW>, apollo_kind(),
                         {{"apollo_adamw_layerwise", "updated after the step like apollo_adamw"}})
               .with_targets()
               .not_by_element()},
          {"apollo_mini", "apollo_adamw of rank 1 with a learning rate per tensor: almost no state",
           OptimizerKind(make_rule<ApolloMini>, mini_kind()).with_targets().not_by_element()}};
}

}  // namespace dml
