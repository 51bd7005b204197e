#include "pipeline/train.h"

#include <filesystem>

#include "core/clock.h"
#include "core/files.h"
#include "core/log.h"
#include "core/profile.h"
#include "pipeline/job.h"
#include "pipeline/progress.h"
#include "pipeline/report.h"
#include "pipeline/training_run.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

// Where to go on from: "" to start anew.
std::string starting_point(const TrainSection& train, const TrainOptions& options) {
  std::string wish = options.resume.value_or(
      train.resume_from_checkpoint.value_or(train.auto_resume_from_checkpoints ? "auto" : "none"));
  if (wish == "none") return "";
  if (wish != "auto") {
    if (auto problem = manifest_problem(wish); !problem.empty())
      throw UserError("{}: cannot go on from here: {}", wish, problem);
    return wish;
  }
  FoundCheckpoint found = find_checkpoint(train.output_dir);
  for (auto& line : found.skipped) log_warning("passed over {}", line);
  if (!found.newest) log_info("no checkpoint in {} yet: starting anew", train.output_dir);
  return found.newest ? found.newest->path : "";
}

// A run that starts anew where an earlier one lies moves that one aside; nothing is overwritten.
void set_aside_earlier_run(const std::string& output_dir) {
  std::vector<fs::path> old;
  if (!fs::is_directory(output_dir)) return;
  for (auto& entry : fs::directory_iterator(output_dir)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("checkpoint-") || name == "metrics.jsonl" || name == "latest" || name == "best")
      old.push_back(entry.path());
  }
  if (old.empty()) return;
  int n = 1;
  while (file_exists(fmt::format("{}/earlier-{}", output_dir, n))) ++n;
  std::string aside = fmt::format("{}/earlier-{}", output_dir, n);
  make_directories(aside);
  for (auto& path : old) fs::rename(path, fs::path(aside) / path.filename());
  log_info("checkpoints and metrics of an earlier run were moved to {} (--resume auto goes on from them)", aside);
}

std::string eval_line(const EvalMetrics& eval) {
  return fmt::format("step {}: validation loss {:.4f}, perplexity {:.2f}", eval.step, eval.loss, eval.perplexity());
}

void write_run_report(const RecipeFile& file, const TrainingRun& run, const MetricsLog& log, double seconds) {
  Report report;
  report.title = fs::path(file.recipe.train.output_dir).filename().string();
  report.subtitle = fmt::format("{} on {} examples", file.path, run.data().report().train_examples);
  for (auto& line : run.header()) {
    auto space = line.find(' ');
    report.facts.push_back({line.substr(0, space), line.substr(line.find_first_not_of(' ', space))});
  }
  report.facts.push_back({"time", clock_text(seconds)});
  report.steps = log.steps();
  report.evals = log.evals();
  ReportTable table{"Data", {"dataset", "rows", "examples", "tokens", "learned", "dropped"}, {}};
  for (auto& d : run.data().report().datasets) {
    std::int64_t dropped = 0;
    for (auto& [reason, n] : d.dropped) dropped += n;
    table.rows.push_back(
        {d.name, grouped(d.rows), grouped(d.examples), grouped(d.tokens), grouped(d.learned), grouped(dropped)});
  }
  report.tables.push_back(std::move(table));
  report.warnings = run.data().report().warnings();
  write_report(file.recipe.train.output_dir, report);
}

}  // namespace

ExitCode train(const RecipeFile& file, Comm& comm, const TrainOptions& options) {
  const TrainSection& settings = file.recipe.train;
  const bool speaks = comm.rank() == 0;
  auto started = Clock::now();
  set_job_threads(settings, comm);

  TrainingRun run(file, comm);
  run.agree();
  std::string from = comm.broadcast_text(speaks ? starting_point(settings, options) : "", 0);
  run.start(from);
  for (auto& line : run.header()) log_info("{}", line);
  if (run.done() >= run.total())  // its result is written again: the run may have been killed right before that
    log_info("this run is already complete at step {}; raise num_epochs or max_steps, or start anew with --resume none",
             run.done());

  std::optional<MetricsLog> log;
  std::optional<Progress> progress;
  if (speaks) {
    make_directories(settings.output_dir);
    remove_left_over(settings.output_dir);
    if (from.empty()) set_aside_earlier_run(settings.output_dir);
    write_file(settings.output_dir + "/recipe.yml", file.text);
    write_file(settings.output_dir + "/recipe.resolved.yml", resolved_yaml(file, true));
    log.emplace(settings.output_dir + "/metrics.jsonl", from.empty() ? -1 : run.done());
    if (!from.empty()) log_info("going on from {} at step {}", from, run.done());
    progress.emplace(run.total(), settings.logging_steps.value_or(std::max<std::int64_t>(1, run.total() / 20)));
  }
  auto note = [&](const std::string& line) {
    if (progress) progress->note(line);
  };
  auto evaluate = [&] {
    EvalMetrics eval = run.evaluate();
    if (log) log->eval(eval);
    note(eval_line(eval));
    for (const Sample& sample : run.samples()) {
      if (log)
        log->event("sample", eval.step,
                   {{"prompt", sample.prompt}, {"expected", sample.expected}, {"text", sample.text}});
      note(fmt::format("{} → {}", dump(sample.prompt), dump(sample.text)));
    }
    return run.gives_up(eval);
  };
  auto saved = [&](const std::string& path) {
    if (!path.empty()) note(fmt::format("saved {}", path));
  };
  auto save = [&] {
    saved(run.finish_save());
    if (log) log->sync();
    run.begin_save(log ? &*log : nullptr);
    if (!run.saves_in_background()) saved(run.finish_save());
  };

  auto step_once = [&] {
    try {
      return run.step();
    } catch (const Error& e) {  // on all ranks alike, when it is this
      if (e.code() == ExitCode::diverged) saved(run.finish_save());
      throw;
    }
  };

  if (from.empty() && run.has_validation() && settings.eval_on_start) evaluate();
  reset_profile();
  bool stopped = false, gave_up = run.out_of_patience();
  std::int64_t saved_at = from.empty() ? -1 : run.done();
  while (run.done() < run.total() && !stopped && !gave_up) {
    StepMetrics metrics = step_once();
    saved(run.poll_save());
    if (log) log->step(metrics);
    if (progress) progress->step(metrics);
    std::int64_t step = run.done() - 1;
    bool evaluated = run.has_validation() && run.calendar().evaluates(step);
    if (evaluated) gave_up = evaluate();
    bool late = settings.max_time && comm.max(seconds_since(started) >= *settings.max_time) > 0;
    stopped = (run.agreed_wish() == Wish::stop || late) && run.done() < run.total();
    bool best =
        evaluated && run.at_best() && (settings.save_strategy == Cadence::best || settings.load_best_model_at_end);
    bool due =
        settings.save_strategy == Cadence::best ? settings.save_first_step && step == 0 : run.calendar().saves(step);
    bool asked =
        late || run.agreed_wish() == Wish::save || (run.agreed_wish() == Wish::stop && settings.save_on_signal);
    if (due || best || asked) {
      save();
      saved_at = run.done();
    }
  }
  if (saved_at != run.done() && !stopped && settings.save_strategy != Cadence::never &&
      settings.save_strategy != Cadence::best)
    save();
  saved(run.finish_save());
  if (progress) progress->finish();
  if (profiling && speaks)
    for (auto& line : profile_table()) log_info("{}", line);
  if (stopped) {
    log_info("stopped after step {} of {}{}; dml train {} --resume auto goes on", run.done(), run.total(),
             saved_at == run.done() ? ""
             : saved_at >= 0        ? fmt::format(", saved at step {}", saved_at)
                                    : ", nothing was saved",
             file.path);
    return ExitCode::stopped;
  }
  if (gave_up)
    log_info("no better validation loss for {} evaluations: stopped early at step {}",
             *settings.early_stopping_patience, run.done());
  run.return_to_best();
  run.write_result();
  if (speaks) {
    write_run_report(file, run, *log, seconds_since(started));
    log_info("done in {}: {} and {}/report.html", clock_text(seconds_since(started)), settings.output_dir,
             settings.output_dir);
  }
  return ExitCode::ok;
}

}  // namespace dml
