// dml watch: follows a run in another terminal.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "assembly/samples.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/file_lock.h"
#include "core/files.h"
#include "pipeline/run_record.h"
#include "recipe/recipe.h"
#include "train/progress.h"
#include "train/run_metrics.h"

namespace dml {
namespace {

constexpr std::size_t kSamplesShown = 3;

struct Watch {
  std::string folder;
  bool once = false;
  Options options{"watch", "watch DIR [--once]", {"dml watch outputs/run", "dml watch outputs/run --once"}};
  Watch() {
    options.about(
        "Follows a run through its output directory: steps, evaluations and samples, as the run itself shows them. "
        "Ends with the run; Ctrl-C ends only this command.");
    options.positional("DIR", folder, "the output directory of a run");
    options.flag("once", once, "print the current state and exit");
  }
};

bool under_way(const std::string& folder) {
  return file_exists(folder + "/.lock") && !FileLock::try_for(folder + "/.lock");
}

/// Number of steps of the whole run, which run.json records. A run of an earlier version did not record it: then it is
/// estimated from the recipe and the progress; 0 if not known yet.
std::int64_t planned_steps(const std::string& folder, const RunMetrics& metrics) {
  if (file_exists(folder + "/run.json"))
    if (const std::int64_t steps = read_run_record(folder).steps; steps > 0) return steps;
  const std::string path = folder + "/recipe.resolved.yml";
  if (!file_exists(path) || metrics.steps.empty()) return 0;
  const TrainSection t = read_recipe(read_file(path), path, {}, RecipeUse::measure).recipe.train;
  if (t.max_steps) return *t.max_steps;
  const StepMetrics& last = metrics.steps.back();
  if (last.epoch <= 0) return 0;
  // The last step of an epoch may have fewer micro-batches: the quotient is at most that step short of a whole epoch.
  constexpr double kSlack = 1e-6;  // of rounding
  const double of_epoch = std::ceil(static_cast<double>(last.step) / last.epoch - kSlack);
  return std::llround(std::ceil(of_epoch * t.num_epochs - kSlack));
}

/// Tracks what was shown of a metrics file.
class Follower {
 public:
  Follower(std::string folder, bool plain) : folder_(std::move(folder)), plain_(plain) {}

  /// Shows new entries.
  void look() {
    RunMetrics now = read_metrics(folder_);
    if (now.steps.size() < steps_ || now.evals.size() < evals_)
      steps_ = evals_ = samples_ = 0;  // the run was restarted
    if (!progress_ && !now.steps.empty()) {
      Progress::Options options;
      if (plain_) options.mode = ProgressMode::plain;
      options.out = stdout;
      options.style = terminal_style(STDOUT_FILENO);
      const std::int64_t total = planned_steps(folder_, now);
      options.log_interval = std::max<std::int64_t>(1, total / 20);
      progress_.emplace(std::max(total, now.steps.back().step), options);
    }
    for (; evals_ < now.evals.size(); ++evals_)
      show_until(now, now.evals[evals_].step), note(eval_line(now.evals[evals_]), now);
    show_until(now, INT64_MAX);
  }
  void end() {
    if (progress_) progress_->finish();
  }

 private:
  void show_until(const RunMetrics& now, std::int64_t step) {
    for (; steps_ < now.steps.size() && now.steps[steps_].step <= step; ++steps_) progress_->step(now.steps[steps_]);
  }
  void note(const std::string& line, const RunMetrics& now) {
    say(line);
    const std::int64_t step = now.evals[evals_].step;
    std::size_t shown = 0;
    for (; samples_ < now.samples.size() && now.samples[samples_].step <= step; ++samples_)
      if (now.samples[samples_].step == step && shown++ < kSamplesShown) say(sample_line(now.samples[samples_]));
  }
  void say(const std::string& line) const {
    if (progress_) progress_->note(line);
    else print(line + "\n");
  }

  std::string folder_;
  bool plain_;
  mutable std::optional<Progress> progress_;
  std::size_t steps_ = 0, evals_ = 0, samples_ = 0;
};

int run_watch(const std::vector<std::string>& words) {
  Watch w;
  w.options.parse(words);
  Follower follower(w.folder, w.once);
  for (;;) {
    const bool running =
        under_way(w.folder);  // queried before reading, so that entries written in between are shown in the next round
    follower.look();
    if (w.once || !running) {
      follower.end();
      print(running ? "under way\n" : "not running\n");
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

}  // namespace

Command watch_command() {
  return {"watch", "follows a run in the terminal", [] { return Watch().options.page(); }, run_watch};
}

}  // namespace dml
