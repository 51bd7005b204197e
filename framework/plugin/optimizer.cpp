// Optimizers of plug-ins: their state is planes of floats; slices are updated one by one.
#include "core/parallel.h"
#include "optim/arguments.h"
#include "plugin/adapters.h"

namespace dml {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr int kMaxPerElement = 64;  // as include/dml/optimizer.h says
constexpr std::int64_t kMaxPerParameter = std::int64_t{1} << 30;

plugin::Parameter to_plugin(const Parameter& p) { return {p.name, p.shape, p.size(), p.decay}; }

class RankThreads : public plugin::Threads {
 private:
  void run(std::int64_t size, const void* body, void (*call)(const void*, std::int64_t, std::int64_t)) const override {
    parallel_ranges(size, kGrain, [&](std::int64_t first, std::int64_t last) { call(body, first, last); });
  }
};

class PluginOptimizer : public Optimizer {
 public:
  PluginOptimizer(Origin origin, std::unique_ptr<plugin::Optimizer> rule)
      : origin_(std::move(origin)), rule_(std::move(rule)) {}

  StateLayout state() const override {
    // The layout may outlive this object.
    return StateLayout([origin = origin_, rule = rule_](const Parameter& p) { return state_of(origin, *rule, p); });
  }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override {
    const RankThreads threads;
    const plugin::Step how{step.number, step.gradient_scale, threads};
    guarded(origin_, [&] {
      for (const OptimizerSlice& s : slices) {
        const plugin::Parameter parameter = to_plugin(*s.parameter);
        const MatrixShape m = trained_matrix(*s.parameter);
        const bool all = s.size() == s.parameter->trained_size();
        rule_->step({parameter, s.value, s.grad, s.state,
                     step.learning_rate * static_cast<double>(s.parameter->learning_rate_scale), all ? m.rows : 1,
                     all ? m.cols : s.size()},
                    how);
      }
    });
  }

 private:
  static void require_within(const Origin& origin, const char* what, std::int64_t number, std::int64_t most) {
    if (number < 0 || number > most)
      plugin_failed(origin, fmt::format("state() gives {} = {}; it must be from 0 to {}", what, number, most));
  }
  static ParameterState state_of(const Origin& origin, const plugin::Optimizer& rule, const Parameter& p) {
    const plugin::StateNeeds needs = guarded(origin, [&] { return rule.state(to_plugin(p)); });
    require_within(origin, "per_element", needs.per_element, kMaxPerElement);
    require_within(origin, "per_parameter", needs.per_parameter, kMaxPerParameter);
    if (needs.per_parameter > 0 && !needs.whole)
      plugin_failed(origin, "state() asks for floats of a parameter without `whole`");
    ParameterState out;
    out.whole = needs.whole;
    for (int k = 0; k < needs.per_element; ++k) out.tensors.push_back({fmt::format("state{}", k)});
    if (needs.per_parameter > 0) out.tensors.push_back({"parameter", DType::f32, 0, {needs.per_parameter}});
    return out;
  }

  Origin origin_;
  std::shared_ptr<const plugin::Optimizer> rule_;
};

OptimizerArgument::From setting_named(const std::string& key, const std::string& row, const std::string& argument) {
  if (key.empty()) return {};
  for (const auto& [name, setting] : kOptimizerSettings)
    if (name == key) return setting;
  throw UserError("its optimizer '{}': argument '{}': there is no setting '{}'", row, argument, key);
}

std::vector<OptimizerArgument> optimizer_arguments(const plugin::Row<plugin::Optimizer>& row) {
  std::vector<OptimizerArgument> out;
  for (const plugin::Argument& a : row.arguments)
    out.push_back({a.name, a.help, a.fallback, setting_named(a.setting, row.name, a.name), a.below, a.words});
  return out;
}

}  // namespace

void check_settings(const plugin::Row<plugin::Optimizer>& row) { optimizer_arguments(row); }

void add_row(const Origin& origin, plugin::Row<plugin::Optimizer> row) {
  auto arguments = optimizer_arguments(row);
  std::vector<OptimizerKind::Spelling> spellings;
  for (const std::string& name : row.spellings) spellings.push_back({name});
  OptimizerKind kind(
      [origin, row, arguments](const OptimizerSettings& settings) -> std::unique_ptr<Optimizer> {
        return std::make_unique<PluginOptimizer>(origin,
                                                 make_of(origin, row, read_arguments(settings, arguments).all()));
      },
      arguments, spellings);
  optimizers().add({row.name, row.help, std::move(kind).with_notice(row.notice).not_by_element()});
}

}  // namespace dml
