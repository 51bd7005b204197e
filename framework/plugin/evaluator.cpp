// Evaluators of plug-ins: they run at every scheduled evaluation.
#include "plugin/adapters.h"
#include "plugin/tables.h"

namespace dml {
namespace {

class View : public plugin::ModelView {
 public:
  explicit View(const EvaluationContext& context) : context_(context) {}
  std::int64_t step() const override { return context_.step; }
  int rank() const override { return context_.comm.rank(); }
  int ranks() const override { return context_.comm.size(); }
  double sum(double mine) override { return context_.comm.sum(mine); }
  void parameters(const std::function<void(std::string_view, std::span<const std::int64_t>, std::span<const float>)>&
                      visit) override {
    for (const Unit& unit : context_.model.parameters.units())
      for (const Parameter& p : unit.parameters) {
        const auto size = static_cast<std::size_t>(p.size());
        const float* floats = unit.value.floats();
        std::vector<float> widened(floats ? 0 : size);
        if (!floats) read_values(unit, p, 0, widened);
        visit(p.name, p.shape, floats ? std::span(floats + p.offset, size) : widened);
      }
  }

 private:
  const EvaluationContext& context_;
};

class PluginEvaluator : public Evaluator {
 public:
  PluginEvaluator(Origin origin, std::unique_ptr<plugin::Evaluator> evaluator)
      : origin_(std::move(origin)), evaluator_(std::move(evaluator)) {
    for (const plugin::Metric& m : guarded(origin_, [&] { return evaluator_->metrics(); }))
      metrics_.push_back({m.name, m.greater_is_better});
  }
  std::vector<Metric> metrics() const override { return metrics_; }
  void evaluate(const EvaluationContext& context, EvaluationResult& result) override {
    const std::vector<double> values = [&] {
      const GatheredValues gathered(context.strategy);
      View view(context);
      return guarded(origin_, [&] { return evaluator_->evaluate(view); });
    }();
    if (values.size() != metrics_.size())
      plugin_failed(origin_, fmt::format("evaluate() gave {} values for {} metrics", values.size(), metrics_.size()));
    for (std::size_t i = 0; i < values.size(); ++i) result.values.push_back({metrics_[i].name, values[i]});
  }

 private:
  Origin origin_;
  std::unique_ptr<plugin::Evaluator> evaluator_;
  std::vector<Metric> metrics_;
};

}  // namespace

void add_row(const Origin& origin, plugin::Row<plugin::Evaluator> row) {
  takes_arguments(row.name);
  plugin_evaluators().add({row.name, row.help, [origin, row](const Json& given) -> std::unique_ptr<Evaluator> {
                             const Json arguments = arguments_in_plugin_args(row.arguments, given, row.name);
                             return std::make_unique<PluginEvaluator>(origin, make_of(origin, row, arguments));
                           }});
}

}  // namespace dml
