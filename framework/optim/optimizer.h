// Optimizers: pure functions of (value, gradient, state, step) over slices of parameters. They hold no state;
// distribution strategies allocate, shard and save it.
//
// Every update rule is a file of this folder with rows for the registry (optim/rules.h). A row holds everything about
// its optimizer: its name and aliases in recipes, its arguments and its factory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/arguments.h"
#include "core/registry.h"
#include "nn/parameter.h"
#include "nn/state_layout.h"

namespace dml {

/// A contiguous range of a parameter's elements, or the whole parameter if the layout requires it. `state` has the
/// optimizer's layout.
struct OptimizerSlice {
  std::span<float> value;
  std::span<const float> grad;
  std::span<float> state;
  const Parameter* parameter = nullptr;
  std::int64_t first = 0;        // index of its first element in the parameter
  std::span<bf16> value16 = {};  // instead of `value` for values stored in bfloat16; only Bf16Optimizer supports it

  std::int64_t size() const { return static_cast<std::int64_t>(value.empty() ? value16.size() : value.size()); }
};

/// Converts a range of dist's Shard to slices.
template <class Shards>
std::vector<OptimizerSlice> optimizer_slices(const Shards& shards) {
  std::vector<OptimizerSlice> slices;
  for (const auto& s : shards) slices.push_back({s.value, s.grad, s.state, s.parameter, s.first, s.value16});
  return slices;
}

struct OptimizerStep {
  double learning_rate = 0;
  std::int64_t number = 0;    // 0, 1, …
  double gradient_scale = 1;  // factor of every gradient: 1 / trained tokens, times the clipping factor
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// The layout of its state, which is zero before the first step.
  virtual StateLayout state() const = 0;
  /// Updates every slice independently; the slices of a step may be passed in several calls.
  virtual void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const = 0;
  /// Bytes of working memory for updating a whole parameter.
  virtual std::size_t working_bytes(const Parameter&) const { return 0; }
  /// Whether the result is not the training point but an average of it (schedule-free). Then callers must switch values
  /// to the average before they evaluate, sample, save or end the run, and back to the training point before the next
  /// step, which restores it exactly.
  virtual bool averages() const { return false; }
  virtual void switch_to_average(std::span<const OptimizerSlice>) const {}
  virtual void switch_to_training_point(std::span<const OptimizerSlice>) const {}
  /// Advice on its settings, printed before a run; "" if none.
  virtual std::string advice() const { return ""; }
};

/// The maximum of working_bytes() over the parameters.
std::size_t working_bytes(const Optimizer& optimizer, const ParameterStore& parameters);

/// A recipe's settings of the optimizer; unset: the optimizer's default.
struct OptimizerSettings {
  std::optional<double> weight_decay = {}, beta1 = {}, beta2 = {}, epsilon = {}, beta3 = {}, epsilon2 = {};
  Json args = Json::object();                    // optim_args, which take precedence over the above
  std::vector<std::string> target_modules = {};  // optim_target_modules, of low-rank optimizers
  std::string schedule = "constant";             // name of the learning-rate schedule
  std::uint64_t seed = 0;                        // of random projections
};

struct OptimizerArgument : Argument {
  using From = std::optional<double> OptimizerSettings::*;
  From from;  // the setting whose value it takes if optim_args does not set it

  OptimizerArgument(std::string called, std::string text, Json otherwise, From setting = {}, double bound = 1e300,
                    std::vector<std::string> allowed = {})
      : Argument{std::move(called), std::move(text), std::move(otherwise), bound, std::move(allowed)}, from(setting) {
    if (from && fallback.is_number()) fallback = fallback.get<double>();  // settings may have fractions
  }
};

/// The settings that are arguments of several optimizers, by their keys of the recipe.
inline constexpr std::pair<std::string_view, OptimizerArgument::From> kOptimizerSettings[] = {
    {"weight_decay", &OptimizerSettings::weight_decay}, {"adam_beta1", &OptimizerSettings::beta1},
    {"adam_beta2", &OptimizerSettings::beta2},          {"adam_beta3", &OptimizerSettings::beta3},
    {"adam_epsilon", &OptimizerSettings::epsilon},      {"adam_epsilon2", &OptimizerSettings::epsilon2}};

struct OptimizerKind {
  using Factory = std::function<std::unique_ptr<Optimizer>(const OptimizerSettings&)>;
  struct Spelling {
    std::string name, notice = {};  // notice: printed if it is not an exact synonym
  };

  Factory factory;
  std::vector<OptimizerArgument> arguments = {};
  std::vector<Spelling> spellings = {};  // aliases in recipes
  std::string notice = {};               // printed if a recipe names it
  bool takes_targets = false;            // uses target_modules
  bool by_element = true;                // state in float32, one entry per element, so it can be pruned (ReLoRA)

  OptimizerKind(Factory make, std::vector<OptimizerArgument> args = {},
                std::vector<Spelling> names = {})  // NOLINT: a factory is a kind
      : factory(std::move(make)), arguments(std::move(args)), spellings(std::move(names)) {}
  OptimizerKind&& with_notice(std::string text) && { return notice = std::move(text), std::move(*this); }
  OptimizerKind&& with_targets() && { return takes_targets = true, std::move(*this); }
  OptimizerKind&& not_by_element() && { return by_element = false, std::move(*this); }
  std::unique_ptr<Optimizer> operator()(const OptimizerSettings& settings) const { return factory(settings); }
};

Registry<OptimizerKind>& optimizers();

}  // namespace dml
