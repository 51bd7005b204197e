#include "pipeline/train.h"

#include <unistd.h>

#include <filesystem>

#include "core/clock.h"
#include "core/files.h"
#include "core/log.h"
#include "core/profile.h"
#include "pipeline/job.h"
#include "pipeline/launch.h"
#include "pipeline/output_folder.h"
#include "pipeline/progress.h"
#include "pipeline/run_outcome.h"
#include "pipeline/run_record.h"
#include "pipeline/run_report.h"
#include "pipeline/training_run.h"
#include "train/metrics_log.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kSamplesShown = 3;  // on the terminal, at each evaluation; metrics.jsonl has them all

// The checkpoint to resume from: "" to start anew.
std::string starting_point(const TrainSection& train, const TrainOptions& options) {
  const std::string asked = options.resume.value_or(
      train.resume_from_checkpoint.value_or(train.auto_resume_from_checkpoints ? "auto" : "none"));
  if (asked == "none") return "";
  if (asked != "auto") {
    if (auto problem = manifest_problem(asked); !problem.empty())
      throw UserError("{}: not a complete checkpoint: {}", asked, problem);
    return asked;
  }
  FoundCheckpoint found = find_checkpoint(train.output_dir);
  for (auto& line : found.skipped) log_warning("skipped {}", line);
  if (!found.newest) log_info("No checkpoint in {}; starting a new run", train.output_dir);
  return found.newest ? found.newest->path : "";
}

// Directories that training reads while it runs or at its end.
std::vector<std::string> inputs_of(const Recipe& recipe) {
  std::vector<std::string> inputs;
  for (const std::string& input : {recipe.model.base_model, recipe.model.base_model_config.value_or(""),
                                   recipe.model.tokenizer_config.value_or(""), recipe.adapter.lora_model_dir.value_or("")})
    if (!input.empty()) inputs.push_back(input);
  return inputs;
}

std::string step_text(std::int64_t saved_at, std::int64_t done) {
  if (saved_at < 0) return "nothing was saved";
  return saved_at == done ? "checkpoint saved" : fmt::format("the last checkpoint is of step {}", saved_at);
}

std::string eval_line(const EvalMetrics& eval) {
  std::vector<std::string> parts;
  for (const NamedValue& v : eval.values)
    parts.push_back(v.name == kEvalLoss
                        ? fmt::format("validation loss {:.4f}, perplexity {:.2f}", v.value, eval.perplexity())
                        : fmt::format("{} {:.4f}", v.name, v.value));
  return fmt::format("step {}: {}", eval.step, fmt::join(parts, ", "));
}

void say_stopped(const TrainingRun& run, const RunRecord& record, std::int64_t saved_at) {
  const std::string program = program_name();
  const bool can_resume = saved_at >= 0;
  log_info("Stopped after step {} of {}; {}", run.done(), run.total(), step_text(saved_at, run.done()));
  if (can_resume) {
    log_info("To resume: {}", shell_text({program, "resume", record.output_dir}));
    log_info("that is:   {}", train_command(record, "auto", program));
  } else {
    log_info("To start again: {}", train_command(record, "", program));
  }
}

// The last line of a run.
void say_done(const RunOutcome& outcome, const TrainState& state, const TrainSection& settings, double seconds) {
  const std::string where =
      fmt::format("result in {}, report in {}/report.html", settings.output_dir, settings.output_dir);
  if (!outcome.worse()) {
    log_info("Done in {}: {}{}{}", clock_text(seconds), outcome.text(), outcome.what.empty() ? "" : "; ", where);
    return;
  }
  const bool better = state.best_metric && *state.best_metric < outcome.last;
  log_warning("this run ended worse than it began: {}{}. Done in {}: {}", outcome.text(),
              better ? fmt::format(" (lowest {:.4f} after step {}; load_best_model_at_end: true keeps it)",
                                   *state.best_metric, state.best_step)
                     : " (try a lower learning_rate)",
              clock_text(seconds), where);
}

}  // namespace

ExitCode train(const RecipeFile& file, Comm& comm, const TrainOptions& options) {
  const TrainSection& settings = file.recipe.train;
  const bool speaks = comm.rank() == 0;
  auto started = Clock::now();
  set_up_processor(settings, comm);
  const RunRecord record = this_run(file, options.overrides, comm);
  std::optional<OutputLock> lock;
  auto take_lock = [&] {
    if (speaks && !lock)
      lock.emplace(settings.output_dir, fmt::format("process {} on {}: {}", getpid(), comm.host(),
                                                    train_command(record, "", "dml")));
  };
  if (fs::is_directory(settings.output_dir)) take_lock();  // refused now rather than when the data have been prepared

  TrainingRun run(file, comm);
  run.agree();
  if (speaks) make_directories(settings.output_dir);
  take_lock();
  std::string from = comm.broadcast_text(speaks ? starting_point(settings, options) : "", 0);
  run.start(from);
  for (auto& line : run.header()) log_info("{}", line);
  for (auto& line : run.details()) log_debug("{}", line);
  for (auto& line : run.data().report().warnings()) log_warning("{}", line);
  if (run.done() >= run.total())  // its result is written again: the run may have been killed right before that
    log_info("This run is complete: step {} of {}. Raise num_epochs or max_steps to extend it, or start a new run with "
             "--resume none", run.done(), run.total());

  std::optional<MetricsLog> log;
  std::optional<Progress> progress;
  if (speaks) {
    remove_left_over(settings.output_dir);
    if (from.empty()) set_earlier_run_aside(settings.output_dir, inputs_of(file.recipe));
    write_file(settings.output_dir + "/recipe.yml", file.text);
    write_file(settings.output_dir + "/recipe.resolved.yml", resolved_yaml(file, true));
    write_run_record(settings.output_dir, record);
    log.emplace(settings.output_dir + "/metrics.jsonl", from.empty() ? -1 : run.done());
    if (!from.empty()) log_info("Resuming from {} (step {})", from, run.done());
    progress.emplace(run.total(),
                     Progress::Options{.mode = options.progress,
                                       .log_interval = settings.logging_steps.value_or(
                                           std::max<std::int64_t>(1, run.total() / 20))});
    run.on_part([&](const char* what, std::int64_t done, std::int64_t total) {
      progress->part(what, run.done() + 1, done, total);
    });
  }
  auto note = [&](const std::string& line) {
    if (progress) progress->note(line);
  };
  auto sample = [&] {
    const std::vector<Sample> samples = run.samples();
    for (const Sample& s : samples)
      if (log) log->sample({run.done(), s.prompt, s.expected, s.text});
    for (std::size_t i = 0; i < std::min(samples.size(), kSamplesShown); ++i) note(sample_line(samples[i]));
  };
  auto saved = [&](const std::string& path) {
    if (!path.empty()) note(fmt::format("saved {}", path));
  };
  auto begin_save = [&] {
    saved(run.finish_save());
    if (log) log->sync();
    run.begin_save(log ? &*log : nullptr);
    if (!run.saves_in_background()) saved(run.finish_save());
  };
  std::int64_t saved_at = from.empty() ? -1 : run.done();
  const auto resume_hint = [&] {
    return saved_at < 0 ? std::string("nothing was saved")
                        : fmt::format("then resume from step {}: {}", saved_at,
                                      shell_text({program_name(), "resume", record.output_dir}));
  };
  // The base was changed under the run. What it computed is only saved if it is right.
  auto save = [&] {
    const TrainingRun::BaseChange change = run.base_change();
    if (change.text.empty() || change.sound) {
      begin_save();
      saved_at = run.done();
    }
    if (change.text.empty()) return;
    saved(run.finish_save());
    throw UserError("{}. Restore the file, {}", change.text, resume_hint());
  };
  auto stop_where_base_is_lost = [&] {
    if (run.lost_base().empty()) return;
    saved(run.finish_save());
    if (saved_at != run.done() && settings.save_on_signal && run.can_save_after_loss()) {
      begin_save();
      saved(run.finish_save());
      saved_at = run.done();
    }
    throw IoError(fmt::format("{}: the file was cut short while it was in use, or its disk failed. Restore it, {}",
                              run.lost_base(), resume_hint()));
  };
  auto evaluate = [&] {
    EvalMetrics eval = run.evaluate();
    stop_where_base_is_lost();
    if (log) log->eval(eval);
    note(eval_line(eval));
    sample();
    return run.record_evaluation(eval);
  };
  auto step_once = [&] {
    try {
      return run.step();
    } catch (const Error& e) {  // on all ranks alike, when it is this
      if (e.code() == ExitCode::diverged) saved(run.finish_save());
      throw;
    }
  };

  if (from.empty() && run.has_validation()) {
    if (settings.eval_on_start) evaluate();
    else sample();  // what the model says before training, for the report
  }
  reset_profile();
  bool stopped = false, gave_up = run.out_of_patience();
  while (run.done() < run.total() && !stopped && !gave_up) {
    StepMetrics metrics = step_once();
    stop_where_base_is_lost();
    saved(run.poll_save());
    if (log) log->step(metrics);
    if (progress) progress->step(metrics);
    std::int64_t step = run.done() - 1;
    bool evaluated = run.has_validation() && run.calendar().evaluates(step);
    if (evaluated) gave_up = evaluate();
    bool late = settings.max_time && comm.max(seconds_since(started) >= *settings.max_time) > 0;
    const SignalRequest request = run.agreed_request();
    stopped = (request == SignalRequest::stop || late) && run.done() < run.total();
    bool best =
        evaluated && run.at_best() && (settings.save_strategy == Cadence::best || settings.load_best_model_at_end);
    bool due =
        settings.save_strategy == Cadence::best ? settings.save_first_step && step == 0 : run.calendar().saves(step);
    bool asked = late || request == SignalRequest::save || (request == SignalRequest::stop && settings.save_on_signal);
    if (due || best || asked) save();
  }
  if (saved_at != run.done() && !stopped && settings.save_strategy != Cadence::never &&
      settings.save_strategy != Cadence::best)
    save();
  saved(run.finish_save());
  if (progress) progress->finish();
  if (profiling && speaks)
    for (auto& line : profile_table()) log_info("{}", line);
  if (stopped) {
    if (speaks) say_stopped(run, record, saved_at);
    return ExitCode::stopped;
  }
  if (gave_up)
    log_info("Stopped early at step {}: {} has not improved for {} evaluations", run.done(),
             run.best_metric().name == kEvalLoss ? "the validation loss" : run.best_metric().name,
             *settings.early_stopping_patience);
  const TrainingRun::BaseChange change = run.base_change();
  if (!change.text.empty() && !change.sound) throw UserError("{}. Restore the file, {}", change.text, resume_hint());
  const std::int64_t result_step = run.return_to_best();
  run.write_result();
  if (!change.text.empty())
    throw UserError("{}. The result in {} belongs to the earlier file", change.text, settings.output_dir);
  if (speaks) {
    const double seconds = seconds_since(started);
    write_report(settings.output_dir,
                 run_report(file, run, *log, seconds, result_step, train_command(record, "", "dml")));
    say_done(outcome_of(log->steps(), log->evals(), result_step), run.state(), settings, seconds);
  }
  return ExitCode::ok;
}

}  // namespace dml
