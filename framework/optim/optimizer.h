// Optimizers: pure functions of (value, gradient, state, step) over slices; they hold no state themselves, so the
// strategy that shards the state or saves it needs no help from here.
//
// A rule is a file of this folder with rows for the registry (optim/rules.h). A row owns everything about its
// optimizer: its name, the other spellings that recipes use, its arguments, and how it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/registry.h"
#include "nn/parameter.h"
#include "nn/state_layout.h"

namespace dml {

/// A stretch of one parameter, or all of it where the layout says so; `state` as the optimizer's layout says.
struct OptimizerSlice {
  std::span<float> value;
  std::span<const float> grad;
  std::span<float> state;
  const Parameter* parameter = nullptr;
  std::int64_t first = 0;        // its first element, of the parameter
  std::span<bf16> value16 = {};  // instead of `value` where values are kept in bfloat16; Bf16Optimizer alone takes it

  std::int64_t size() const { return static_cast<std::int64_t>(value.empty() ? value16.size() : value.size()); }
};

/// The slices of anything shaped like dist's Shard.
template <class Shards>
std::vector<OptimizerSlice> optimizer_slices(const Shards& shards) {
  std::vector<OptimizerSlice> slices;
  for (const auto& s : shards) slices.push_back({s.value, s.grad, s.state, s.parameter, s.first, s.value16});
  return slices;
}

struct OptimizerStep {
  double learning_rate = 0;
  std::int64_t number = 0;    // 0, 1, …
  double gradient_scale = 1;  // multiplies every gradient first: 1 / trained tokens, times the clipping factor
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Its state per parameter; all zero before the first step.
  virtual StateLayout state() const = 0;
  /// Slices are updated one by one: those of a step may come in several calls.
  virtual void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const = 0;
  /// Bytes of working memory for a parameter that it updates whole.
  virtual std::size_t working_bytes(const Parameter&) const { return 0; }
  /// Whether it trains at one point and its result is another point, the average of its steps (schedule-free). Then
  /// whoever evaluates, samples, saves or ends a run shows the average first, and goes back to the training point
  /// before the next step. The training point comes back bit by bit.
  virtual bool averages() const { return false; }
  virtual void show_average(std::span<const OptimizerSlice>) const {}
  virtual void show_training_point(std::span<const OptimizerSlice>) const {}
  /// Advice on its settings, shown before a run; "" for none.
  virtual std::string advice() const { return ""; }
};

/// The most working memory that any of these parameters takes.
std::size_t working_bytes(const Optimizer& optimizer, const ParameterStore& parameters);

/// Settings of a recipe for the optimizer; unset: the optimizer's default.
struct OptimizerSettings {
  double weight_decay = 0;
  std::optional<double> beta1 = {}, beta2 = {}, epsilon = {}, beta3 = {}, epsilon2 = {};
  Json args = Json::object();                    // optim_args; they win over the above
  std::vector<std::string> target_modules = {};  // optim_target_modules, of the low-rank ones
  std::string schedule = "constant";             // its name
  std::uint64_t seed = 0;                        // of random projections
};

/// An argument of an optimizer: its type is its default's.
struct Argument {
  enum class From { args, weight_decay, beta1, beta2, beta3, epsilon, epsilon2 };
  std::string name, help;
  Json fallback;
  From from = From::args;               // the setting that gives it, unless optim_args do
  double below = 1e300;                 // numbers: in [0, below)
  std::vector<std::string> words = {};  // texts: the only ones allowed
};

struct OptimizerKind {
  using Factory = std::function<std::unique_ptr<Optimizer>(const OptimizerSettings&)>;
  struct Spelling {
    std::string name, notice = {};  // a notice where it stands for something a little different
  };

  Factory factory;
  std::vector<Argument> arguments = {};
  std::vector<Spelling> spellings = {};  // of recipes, besides its name
  std::string notice = {};               // told once where a recipe names it
  bool takes_targets = false;            // reads target_modules
  bool by_element = true;                // state in float32, one entry an element: it can be pruned (ReLoRA)

  OptimizerKind(Factory make, std::vector<Argument> args = {},
                std::vector<Spelling> names = {})  // NOLINT: a factory is a kind
      : factory(std::move(make)), arguments(std::move(args)), spellings(std::move(names)) {}
  OptimizerKind&& with_notice(std::string text) && { return notice = std::move(text), std::move(*this); }
  OptimizerKind&& with_targets() && { return takes_targets = true, std::move(*this); }
  OptimizerKind&& not_by_element() && { return by_element = false, std::move(*this); }
  std::unique_ptr<Optimizer> operator()(const OptimizerSettings& settings) const { return factory(settings); }
};

Registry<OptimizerKind>& optimizers();

}  // namespace dml
