#include "optim/low_rank.h"

#include "core/error.h"
#include "kernels/gemm.h"
#include "optim/elementwise.h"

namespace dml {

OptimTargetModules::OptimTargetModules(const std::vector<std::string>& modules) : modules_(modules) {
  for (const std::string& m : modules) {
    all_linear_ |= m == "all-linear" || m == "all_linear";
    patterns_.emplace_back(m, "optim_target_modules");
  }
}

bool OptimTargetModules::contains(const Parameter& p) const {
  if (p.role == ParameterRole::embedding || !trained_matrix(p).matrix || !p.name.ends_with(".weight")) return false;
  if (all_linear_) return true;
  const std::string_view module = std::string_view(p.name).substr(0, p.name.rfind('.'));
  for (std::size_t i = 0; i < modules_.size(); ++i)
    if (module.find(modules_[i]) != std::string_view::npos || patterns_[i].matches(module)) return true;
  return false;
}

void project(const Projection& p, const float* g, const float* basis, float* low) {
  const ConstMat full{g, p.rows, p.cols}, b{basis, p.rank, p.short_side()};
  if (p.right) kernels::gemm_nt(full, kernels::weight_of(b), {low, p.rows, p.rank}, Write::set);
  else kernels::gemm_nn(b, kernels::weight_of(full), {low, p.rank, p.cols}, Write::set);
}

void project_back(const Projection& p, const float* low, const float* basis, float* g) {
  const ConstMat b{basis, p.rank, p.short_side()};
  if (p.right) kernels::gemm_nn({low, p.rows, p.rank}, kernels::weight_of(b), {g, p.rows, p.cols}, Write::set);
  else kernels::gemm_tn(b, {low, p.rank, p.cols}, {g, p.rows, p.cols}, Write::set);
}

namespace {

// Adam's m/(√v + ε) of one element.
struct AdamDirection {
  float beta1, beta2, eps, fresh1, fresh2;

  explicit AdamDirection(const AdamSettings& a)
      : beta1(as_float(a.beta1)),
        beta2(as_float(a.beta2)),
        eps(as_float(a.epsilon)),
        fresh1(1 - beta1),
        fresh2(1 - beta2) {}
  float operator()(float g, float& m, float& v) const {
    m = beta1 * m + fresh1 * g;
    v = beta2 * v + fresh2 * g * g;
    return m / (std::sqrt(v) + eps);
  }
};

// √(1 − β2ᵗ)/(1 − β1ᵗ)
float bias_correction(const AdamSettings& a, std::int64_t t) {
  const auto steps = static_cast<double>(t), beta1 = static_cast<double>(as_float(a.beta1)),
             beta2 = static_cast<double>(as_float(a.beta2));
  return as_float(std::sqrt(1 - std::pow(beta2, steps)) / (1 - std::pow(beta1, steps)));
}

}  // namespace

float adam_direction(const AdamSettings& a, std::int64_t t, std::int64_t size, const float* g, float* m, float* v,
                     float* out) {
  each_element(size, [=, direction = AdamDirection(a)](std::int64_t i) { out[i] = direction(g[i], m[i], v[i]); });
  return bias_correction(a, t);
}

std::vector<OptimizerArgument> low_rank_arguments(int rank, const char* gap_help) {
  return {{"rank", "of the projected gradient", rank, {}, 65536},
          {"update_proj_gap", gap_help, 200},
          {"proj_type", "which side is projected: the shorter one", "std", {}, 1, {"std"}}};
}

LowRankAdamW::LowRankAdamW(const OptimizerSettings& s, const std::vector<OptimizerArgument>& arguments,
                           const char* name, std::vector<StateTensor> first)
    : a_(read_arguments(s, arguments)),
      adam_(a_),
      targets_(std::make_shared<OptimTargetModules>(s.target_modules)),
      first_(std::move(first)) {
  if (s.target_modules.empty())
    throw UserError(
        "optimizer: {} needs optim_target_modules (names of modules such as self_attn and mlp, or all-linear)", name);
  if (a_.whole_number("rank") < 1 || a_.whole_number("update_proj_gap") < 1)
    throw UserError("optim_args: rank and update_proj_gap must be at least 1");
}

StateLayout LowRankAdamW::state() const {
  return StateLayout([targets = targets_, first = first_, rank = a_.whole_number("rank")](const Parameter& p) {
    if (!targets->contains(p)) return ParameterState{{{"state0"}, {"state1"}}};
    const Projection to(trained_matrix(p), rank);
    ParameterState out{.tensors = first, .whole = true};
    out.tensors.push_back({"basis", DType::f32, 0, {to.rank, to.short_side()}});
    for (const char* name : {"state0", "state1"}) out.tensors.push_back({name, DType::f32, 0, {to.projected()}});
    return out;
  });
}

std::size_t LowRankAdamW::working_bytes(const Parameter& p) const {
  return targets_->contains(p) ? static_cast<std::size_t>(working_floats(projection(p))) * sizeof(float) : 0;
}

bool LowRankAdamW::sets_basis(const OptimizerStep& step, const Projection& to, const float* basis) const {
  return step.number % a_.whole_number("update_proj_gap") == 0 ||
         std::all_of(basis, basis + to.basis(), [](float x) { return x == 0; });
}

void LowRankAdamW::step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const {
  for (const OptimizerSlice& s : slices)
    if (targets_->contains(*s.parameter)) step_matrix(s, step);
    else step_whole(s, step);
}

// As in the authors' optimizers, ε is added before the bias correction.
void LowRankAdamW::step_whole(const OptimizerSlice& s, const OptimizerStep& step) const {
  const SliceStep k(s, step, as_float(adam_.weight_decay));
  const float* grad = s.grad.data();
  float *w = s.value.data(), *m = plane(s, 0), *v = plane(s, 1);
  const float factor = k.rate * bias_correction(adam_, step.number + 1);
  each_element(s.size(), [=, direction = AdamDirection(adam_)](std::int64_t i) {
    w[i] -= factor * direction(grad[i] * k.scale, m[i], v[i]);
    w[i] -= k.rate * k.decay * w[i];
  });
}

}  // namespace dml
