#include "pipeline/observers.h"

#include <algorithm>
#include <cmath>

#include "assembly/samples.h"
#include "core/log.h"
#include "pipeline/hub_pushes.h"
#include "plugin/tables.h"
#include "train/best_model.h"
#include "train/limits.h"
#include "train/mlflow.h"
#include "train/plateau.h"
#include "train/preference_warnings.h"
#include "train/tensorboard.h"
#include "train/trainer.h"
#include "train/trigger_file.h"
#include "train/wandb.h"
#include "train/zero_gradient.h"

namespace dml {
namespace {

constexpr std::size_t kSamplesShown = 3;  // on the terminal, at each evaluation; metrics.jsonl has them all

// Work of the trained form between steps: ReLoRA's restarts.
class FormSteps : public Observer {
 public:
  explicit FormSteps(RunPlan& plan) : plan_(plan) {}
  void before_step(std::int64_t done) override { plan_.trained->before_step(done, plan_.optimizer->state()); }

 private:
  RunPlan& plan_;
};

// Checks the first loss where it is known: a model that is its own reference has a fixed loss.
class FirstLoss : public Observer {
 public:
  FirstLoss(double known, std::string folder) : known_(known), folder_(std::move(folder)) {}
  Action on_step(const StepMetrics& metrics) override {
    if (metrics.step == 1 && std::abs(metrics.loss - known_) > 1e-3 * std::max(1.0, known_))
      log_warning(
          "the loss of the first step is {:.4f} instead of {:.4f}, the loss when model and reference are equal: the "
          "reference scores in {} are not those of the model that this run starts from",
          metrics.loss, known_, folder_);
    return {};
  }

 private:
  double known_;
  std::string folder_;
};

// Progress lines on the terminal.
class ProgressLines : public Observer {
 public:
  ProgressLines(std::int64_t steps, Progress::Options options) : progress_(steps, std::move(options)) {}

  void on_part(std::string_view what, std::int64_t step, std::int64_t done, std::int64_t total) override {
    progress_.part(what, step, done, total);
  }
  Action on_step(const StepMetrics& metrics) override {
    progress_.step(metrics);
    return {};
  }
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) override {
    if (!metrics.values.empty()) progress_.note(eval_line(metrics));
    for (std::size_t i = 0; i < std::min(samples.size(), kSamplesShown); ++i) progress_.note(sample_line(samples[i]));
    return {};
  }
  void on_save(const SavedCheckpoint& saved) override { progress_.note(fmt::format("saved {}", saved.path)); }
  void on_end(const RunEnd&) override { progress_.finish(); }

 private:
  Progress progress_;
};

// "file:///path" and "file:path" name a directory as "path" does.
std::string directory_of(std::string uri) {
  if (uri.starts_with("file://")) uri.erase(0, 7);
  else if (uri.starts_with("file:")) uri.erase(0, 5);
  return uri;
}

// Adds logs for TensorBoard, MLflow and W&B, and pushes to the Hub.
void add_other_logs(Observers& observers, const Recipe& recipe) {
  const LogSection& log = recipe.log;
  const std::string& folder = recipe.train.output_dir;
  if (log.use_tensorboard) observers.push_back(std::make_unique<TensorboardEvents>(folder + "/runs"));
  if (log.mlflow())
    observers.push_back(std::make_unique<MlflowRun>(
        MlflowRun::Settings{log.mlflow_tracking_uri ? directory_of(*log.mlflow_tracking_uri) : folder + "/mlruns",
                            log.mlflow_experiment_name.value_or("Default"), log.mlflow_run_name.value_or("")}));
  if (log.wandb())
    observers.push_back(std::make_unique<WandbRun>(
        WandbRun::Settings{folder, log.wandb_project.value_or("uncategorized"), log.wandb_entity.value_or(""),
                           log.wandb_name.value_or(""), log.wandb_run_id.value_or(""), ""}));
  if (log.hub_model_id && log.hub_strategy != HubStrategy::end) observers.push_back(make_hub_pushes(recipe));
}

}  // namespace

Observers make_policies(RunPlan& plan, Clock::time_point started) {
  const TrainSection& t = plan.recipe.train;
  Observers all;
  all.push_back(std::make_unique<FormSteps>(plan));
  all.push_back(std::make_unique<SignalRequests>(t.save_on_signal));
  if (const DynamicCheckpoint& d = t.dynamic_checkpoint; d.enabled && plan.comm.rank() == 0)
    all.push_back(std::make_unique<TriggerFile>(d.trigger_file_path.value_or(t.output_dir + "/axolotl_checkpoint.save"),
                                                d.check_interval));
  if (const auto known = plan.objective->loss_at_start())
    all.push_back(std::make_unique<FirstLoss>(*known, plan.data.prepared.folder()));
  if (plan.comm.rank() == 0) {  // equal rewards give no gradient; PreferenceWarnings reports that at the end
    if (plan.recipe.preference.rl == Rl::none) all.push_back(std::make_unique<ZeroGradient>());
    else all.push_back(std::make_unique<PreferenceWarnings>());
  }
  if (t.max_time) all.push_back(std::make_unique<TimeLimit>(started, *t.max_time));
  if (t.loss_watchdog_threshold)
    all.push_back(std::make_unique<LossWatchdog>(*t.loss_watchdog_threshold, t.loss_watchdog_patience));
  if (const OptimSection& o = plan.recipe.optim; o.reduces_on_plateau())
    all.push_back(
        std::make_unique<Plateau>(plateau_settings(o.lr_scheduler_kwargs, plan.best_metric, o.learning_rate)));
  all.push_back(std::make_unique<BestModel>(
      BestModel::Settings{plan.best_metric, t.save_strategy == IntervalStrategy::best || t.load_best_model_at_end,
                          t.early_stopping_patience}));
  if (plan.comm.rank() == 0)
    for (auto& row : plugin_observers().rows())
      all.push_back(row.make(arguments_of(plan.recipe.plugin.plugin_args, row.name)));
  return all;
}

MetricsLog* add_writers(Observers& observers, const RunPlan& plan, const TrainState& state, const std::string& from,
                        ProgressMode progress) {
  const TrainSection& t = plan.recipe.train;
  const MetricsBefore before{from.empty() ? -1 : state.step, from, !state.extra.contains(kEvaluationOpen)};
  auto log = std::make_unique<MetricsLog>(t.output_dir + "/metrics.jsonl", before);
  MetricsLog* kept = log.get();
  observers.push_back(std::move(log));
  const std::int64_t steps = plan.data.schedule.steps();
  observers.push_back(std::make_unique<ProgressLines>(
      steps, Progress::Options{.mode = progress,
                               .log_interval = t.logging_steps.value_or(std::max<std::int64_t>(1, steps / 20))}));
  add_other_logs(observers, plan.recipe);
  return kept;
}

}  // namespace dml
