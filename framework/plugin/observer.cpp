// Observers of plug-ins, on rank 0. Their state is part of every checkpoint, under the name of their row.
#include "core/log.h"
#include "plugin/adapters.h"
#include "plugin/tables.h"

namespace dml {
namespace {

plugin::NamedValues to_plugin(const std::vector<NamedValue>& values) {
  plugin::NamedValues out;
  for (const NamedValue& v : values) out.emplace_back(v.name, v.value);
  return out;
}

plugin::End to_plugin(RunEnd::Reason reason) {
  switch (reason) {
    case RunEnd::Reason::complete:
      return plugin::End::complete;
    case RunEnd::Reason::finished_early:
      return plugin::End::finished_early;
    case RunEnd::Reason::stopped:
      return plugin::End::stopped;
  }
  return plugin::End::stopped;
}

class PluginObserver : public Observer {
 public:
  PluginObserver(Origin origin, std::string name, std::unique_ptr<plugin::Observer> observer)
      : origin_(std::move(origin)), name_(std::move(name)), observer_(std::move(observer)) {}

  Action on_start(const RunFacts& f) override {
    guarded(origin_, [&] { observer_->on_start({f.first_step, f.steps, f.output_dir, f.resumed_from}); });
    return {};
  }
  Action on_step(const StepMetrics& m) override {
    return noted(guarded(origin_, [&] {
      return observer_->on_step({m.step, m.epoch, m.loss, m.grad_norm, m.lr, m.tokens, m.trained_tokens, m.tok_s,
                                 m.step_s, m.mem, to_plugin(m.values)});
    }));
  }
  Action on_eval(const EvalMetrics& m, const std::vector<SampleMetrics>& samples) override {
    std::vector<plugin::Sample> texts;
    for (const SampleMetrics& s : samples) texts.push_back({s.prompt, s.expected, s.text});
    return noted(guarded(origin_, [&] { return observer_->on_eval({m.step, m.epoch, to_plugin(m.values)}, texts); }));
  }
  void on_save(const SavedCheckpoint& saved) override {
    guarded(origin_, [&] { observer_->on_save(saved.path, saved.step); });
  }
  void on_end(const RunEnd& end) override {
    if (asked_to_finish_ && end.reason == RunEnd::Reason::finished_early)
      log_info("Finished early at step {}: plug-in {}: {} asked for it", end.step, origin_.plugin, origin_.row);
    guarded(origin_, [&] { observer_->on_end(to_plugin(end.reason), end.step); });
  }
  void write_state(TrainState& state) const override {
    if (Json own = guarded(origin_, [&] { return observer_->state(); }); !own.is_null())
      state.extra["plugins"][name_] = std::move(own);
  }
  void read_state(const TrainState& state, const std::string&) override {
    const auto all = state.extra.find("plugins");
    if (all == state.extra.end() || !all->contains(name_)) return;
    guarded(origin_, [&] { observer_->restore(all->at(name_)); });
  }

 private:
  Action noted(const plugin::Action& asked) {
    asked_to_finish_ |= asked.finish;
    return {asked.save || asked.stop, asked.finish, asked.stop};
  }

  Origin origin_;
  std::string name_;
  std::unique_ptr<plugin::Observer> observer_;
  bool asked_to_finish_ = false;
};

}  // namespace

void add_row(const Origin& origin, plugin::Row<plugin::Observer> row) {
  takes_arguments(row.name);
  plugin_observers().add({row.name, row.help, [origin, row](const Json& given) -> std::unique_ptr<Observer> {
                            const Json arguments = arguments_in_plugin_args(row.arguments, given, row.name);
                            return std::make_unique<PluginObserver>(origin, row.name, make_of(origin, row, arguments));
                          }});
}

}  // namespace dml
