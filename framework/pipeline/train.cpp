#include "pipeline/train.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "assembly/job.h"
#include "checkpoint/checkpoint_dir.h"
#include "core/clock.h"
#include "core/closest.h"
#include "core/directory.h"
#include "core/files.h"
#include "core/left_over.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "diagnose/launch.h"
#include "diagnose/requirements.h"
#include "pipeline/hub_pushes.h"
#include "pipeline/observers.h"
#include "pipeline/output_folder.h"
#include "pipeline/preflight.h"
#include "pipeline/recipe_changes.h"
#include "pipeline/resume_rules.h"
#include "pipeline/run_outcome.h"
#include "pipeline/run_record.h"
#include "pipeline/run_report.h"
#include "train/progress.h"
#include "train/trainer.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

// "DIR" for "DIR/": names of files are appended to it.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

RecipeFile with_plain_folder(RecipeFile file) {
  file.recipe.train.output_dir = without_slash(file.recipe.train.output_dir);
  return file;
}

// The checkpoint to resume from; "": none.
std::string starting_point(const TrainSection& train, const TrainOptions& options) {
  const std::string asked = options.resume.value_or(
      train.resume_from_checkpoint.value_or(train.auto_resume_from_checkpoints ? "auto" : "none"));
  if (asked == "none") return "";
  if (asked != "auto") {
    if (missing_path(asked)) {
      const std::string word = closest(asked, std::vector<std::string>{"auto", "none"});
      throw UserError("{}: no such checkpoint{}", asked,
                      word.empty() ? near_missing(asked) : fmt::format("; did you mean '{}'?", word));
    }
    if (auto problem = manifest_problem(asked); !problem.empty())
      throw UserError("{}: not a complete checkpoint: {}", asked, problem);
    return without_slash(asked);
  }
  FoundCheckpoint found = find_checkpoint(train.output_dir);
  // A newer checkpoint that may not be read is not damaged; the run would compute and replace it.
  for (const Checkpoint& c : list_checkpoints(train.output_dir))
    if (!found.newest || c.step > found.newest->step) require_directory(c.path);
  for (auto& line : found.skipped) log_warning("skipped {}", line);
  if (!found.newest) log_info("No checkpoint in {}; starting a new run", train.output_dir);
  return found.newest ? found.newest->path : "";
}

// Directories that training reads while it runs or at its end.
std::vector<std::string> inputs_of(const Recipe& recipe) {
  std::vector<std::string> inputs;
  for (const std::string& input :
       {recipe.model.base_model, recipe.model.base_model_config.value_or(""),
        recipe.model.tokenizer_config.value_or(""), recipe.adapter.lora_model_dir.value_or("")})
    if (!input.empty()) inputs.push_back(input);
  return inputs;
}

std::string step_text(std::int64_t saved_at, std::int64_t done) {
  if (saved_at < 0) return "nothing was saved";
  return saved_at == done ? "checkpoint saved" : fmt::format("the last checkpoint is of step {}", saved_at);
}

void log_stopped(const RunEnd& end, std::int64_t steps, const RunRecord& record) {
  const std::string program = program_name();
  const bool can_resume = end.saved_at >= 0;
  log_info("Stopped after step {} of {}; {}", end.step, steps, step_text(end.saved_at, end.step));
  if (can_resume) {
    log_info("To resume: {}", shell_text({program, "resume", path_for_user(record.output_dir)}));
    log_info("that is:   {}", command_for_user(record, "auto", program));
  } else {
    log_info("To start again: {}", command_for_user(record, "", program));
  }
}

// Logs the last line of a run.
void log_done(const RunOutcome& outcome, const RunPlan& plan, const TrainState& state, double seconds) {
  const TrainSection& settings = plan.recipe.train;
  const std::string where =
      fmt::format("result in {}, report in {}/report.html", settings.output_dir, settings.output_dir);
  if (!outcome.worse()) {
    log_info("Done in {}: {}{}{}", clock_text(seconds), outcome.text(), outcome.what.empty() ? "" : "; ", where);
    return;
  }
  const bool better = !settings.load_best_model_at_end && outcome.what == kValidationLoss &&
                      plan.best_metric.name == kEvalLoss && state.best_metric && *state.best_metric < outcome.last;
  log_warning("this run ended worse than it began: {}{}. Done in {}: {}", outcome.text(),
              better ? fmt::format(" (lowest {:.4f} after step {}; load_best_model_at_end: true keeps it)",
                                   *state.best_metric, state.best_step)
                     : " (try a lower learning_rate)",
              clock_text(seconds), where);
}

// Warns if the launcher started another number of ranks than the recipe asks for, or more ranks than a step has
// micro-batches.
void warn_of_ranks(const RunPlan& plan) {
  const std::int64_t ranks = plan.comm.size(), wanted = plan.recipe.train.ranks,
                     of_step = plan.data.schedule.options().micro_batches_per_step;
  if (wanted > 0 && wanted != ranks)
    log_warning("'ranks: {}' has no effect: the launcher set the number of ranks to {}", wanted, ranks);
  if (of_step < ranks && !plan.recipe.preference.sampling())
    log_warning("a step has {} micro-batches, so {} of {} ranks are idle; raise batch_size, or start fewer ranks",
                of_step, ranks - of_step, ranks);
}

// Advises where a given layout leaves threads idle: one micro-batch may be too small for all threads while several
// ranks could compute others at the same time.
void advise_on_layout(const RunPlan& plan) {
  constexpr std::int64_t kTokensOfAThread = 128, kFewThreads = 4;
  const std::int64_t waiting = plan.recipe.train.micro_batches_per_step(1), longest = plan.data.schedule.longest();
  if (!plan.layout_reason.empty() || plan.comm.size() > 1 || threads() < kFewThreads || waiting < 2 ||
      longest >= kTokensOfAThread * threads())
    return;
  log_info(
      "A step's {} micro-batches of up to {} tokens come one after another, and each is small for {} threads; dml "
      "launch --autotune train {} finds the fastest number of ranks",
      waiting, longest, threads(), plan.file.path);
}

// How to train the result of a complete run further. Where the schedule depends on the length of the run, a longer run
// would have had other learning rates in its past steps, which RunPlan::start() refuses.
std::string advice_on_more_steps(const RunPlan& plan, std::int64_t step) {
  const Recipe& recipe = plan.recipe;
  const std::int64_t steps = plan.data.schedule.steps();
  if (const auto change = first_rate_change(recipe.optim, steps, 2 * steps, step))
    return fmt::format(
        "A run with {} cannot be extended. To train its result further, start a new run with {}: {} and another "
        "output_dir",
        change->cause, plan.trained->continuation_key(), recipe.train.output_dir);
  return fmt::format("Raise {} to extend it", recipe.train.max_steps ? "max_steps" : "num_epochs");
}

// Logs the description of a run before its first step.
void introduce(const RunPlan& plan, const TrainState& state) {
  for (auto& line : plan.header()) log_info("{}", line);
  warn_of_ranks(plan);
  advise_on_layout(plan);
  for (auto& line : plan.details()) log_debug("{}", line);
  for (auto& line : plan.data.prepared.report().warnings()) log_warning("{}", line);
  for (auto& line : misspelt_names(plan.recipe, plan.base)) log_warning("{}", line);
  if (state.extra.contains(kEvaluationOpen)) return;  // the run ended before this evaluation
  if (state.step >=
      plan.data.schedule.steps())  // its result is written again: the run may have been killed right before that
    log_info("This run is complete: step {} of {}. {}, or start a new run: dml train RECIPE --resume none", state.step,
             plan.data.schedule.steps(), advice_on_more_steps(plan, state.step));
}

// The output directory of a run, on rank 0: locked, earlier runs moved aside, with the recipe in it.
class RunFolder {
 public:
  RunFolder(const RecipeFile& file, const RunRecord& record, const Comm& comm)
      : file_(file), record_(record), comm_(comm) {
    if (fs::is_directory(path())) lock();  // fails before the data are prepared
  }
  void make_and_lock() {
    if (comm_.rank() != 0) return;
    make_directories(path());
    lock();
  }
  /// `from`: the checkpoint that the run resumes from; `steps`: of the whole run.
  void prepare(const std::string& from, std::int64_t step, std::int64_t steps) const {
    remove_left_over(path());
    if (from.empty()) archive_earlier_run(path(), inputs_of(file_.recipe));
    else if (real_path(run_folder_of(from)) == real_path(path())) archive_later_checkpoints(path(), step);
    write_file(path() + "/recipe.yml", file_.text);
    write_file(path() + "/recipe.resolved.yml", resolved_yaml(file_, true));
    RunRecord planned = record_;
    planned.steps = steps;
    write_run_record(path(), planned);
    if (!from.empty()) log_info("Resuming from {} (step {})", from, step);
  }

 private:
  const std::string& path() const { return file_.recipe.train.output_dir; }
  void lock() {
    if (comm_.rank() == 0 && !lock_)
      lock_.emplace(path(),
                    fmt::format("process {} on {}: {}", getpid(), comm_.host(), train_command(record_, "", "dml")));
  }

  const RecipeFile& file_;
  const RunRecord& record_;
  const Comm& comm_;
  std::optional<OutputLock> lock_;
};

// Where the examples of a step come from: of some micro-batches, or of all.
std::string rows_text(const RunData& data, std::int64_t step, std::span<const std::int64_t> only) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> places;
  for (std::int64_t m = 0; m < data.schedule.step(step).micro_batches; ++m)
    if (only.empty() || std::ranges::find(only, m) != only.end())
      for (const std::int32_t i : data.schedule.examples(step, m))
        places.push_back(data.prepared.place(data.train.stored(i)));
  const std::size_t more = places.size() - std::min(places.size(), kShown);
  places.resize(places.size() - more);
  return fmt::format("{}{}", fmt::join(places, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// UserError unless the disk has room for the checkpoints that this run adds.
void check_room_for_checkpoints(const RunPlan& plan, const std::string& from) {
  const TrainSection& t = plan.recipe.train;
  const std::int64_t added = added_checkpoints(t, plan.data.calendar, from);
  check_disk_space(t.output_dir, plan.checkpoint_bytes() * static_cast<std::size_t>(added));
}

TrainerSettings trainer_settings(const RunPlan& plan, const TrainState& state, const std::string& from,
                                 const RunRecord& record) {
  const TrainSection& t = plan.recipe.train;
  TrainerSettings s;
  s.facts = {
      .first_step = state.step, .steps = plan.data.schedule.steps(), .output_dir = t.output_dir, .resumed_from = from};
  for (auto& evaluator : plan.evaluators)
    for (Metric& metric : evaluator->metrics()) s.facts.metrics.push_back(std::move(metric));
  for (auto& [key, value] : recipe_items(resolved_yaml(plan.file)))
    if (!value.empty()) s.facts.settings.push_back({key, value});
  s.max_grad_norm = plan.recipe.optim.max_grad_norm;
  s.evaluates = [&plan](std::int64_t step) { return !plan.evaluators.empty() && plan.data.calendar.evaluates(step); };
  const bool best_only = t.save_strategy == IntervalStrategy::best;
  s.saves = [&plan, best_only, first = t.save_first_step](std::int64_t step) {
    return best_only ? first && step == 0 : plan.data.calendar.saves(step);
  };
  s.save_last = !best_only && t.save_strategy != IntervalStrategy::never;
  s.save_when_stopped = t.save_on_signal;
  s.resume_command = shell_text({program_name(), "resume", path_for_user(record.output_dir)});
  s.nonfinite_patience = t.nonfinite_patience;
  s.rows_of_step = [&plan](std::int64_t step, std::span<const std::int64_t> only) {
    return rows_text(plan.data, step, only);
  };
  s.micro_batch_size = t.micro_batch_size;
  s.num_epochs = t.num_epochs;
  s.eval_steps = plan.data.calendar.eval_steps();
  s.save_steps = plan.data.calendar.save_steps();
  return s;
}

}  // namespace

ExitCode train(const RecipeFile& given, Comm& comm, const TrainOptions& options) {
  const auto started = Clock::now();
  const RecipeFile file = with_plain_folder(given);
  const TrainSection& settings = file.recipe.train;
  const bool is_rank_zero = comm.rank() == 0;
  set_up_processor(settings, comm, options.layout ? options.layout->layout.threads : 0);
  const RunRecord record = current_run(file, options.overrides, comm);
  require_hub_token(file.recipe);
  RunFolder folder(file, record, comm);

  RunPlan plan(file, comm);
  if (options.layout) plan.layout_reason = options.layout->why;
  Observers observers = make_policies(plan, started);
  plan.agree();
  folder.make_and_lock();
  const std::string from = comm.broadcast_text(is_rank_zero ? starting_point(settings, options) : "", 0);
  if (is_rank_zero) check_room_for_checkpoints(plan, from);
  const TrainState state = plan.start(from);
  introduce(plan, state);
  MetricsLog* log = nullptr;
  if (is_rank_zero) {
    folder.prepare(from, state.step, plan.data.schedule.steps());
    log = add_writers(observers, plan, state, from, options.progress);
  }

  Saver saver(plan.step_parts, plan.files, {settings.output_dir, settings.save_total_limit, plan.saves_in_background});
  BaseWatch base(
      comm, plan.base_files, plan.base_digest, [&] { return plan.base.examine(comm); }, plan.trained->copies_base());
  Trainer trainer({plan.step_parts, plan.data.schedule, plan.data.loader, plan.learning_rate, plan.evaluators,
                   observers, saver, base, log},
                  trainer_settings(plan, state, from, record), state);
  plan.files.card_facts = [&]() -> CardFacts {
    const TrainState& now = trainer.state();
    return {now.step, plan.best_metric.name == kEvalLoss ? now.best_metric : std::nullopt, now.best_step};
  };
  const RunEnd end = trainer.run();

  if (profiling && is_rank_zero)
    for (auto& line : profile_table(profile_rows(), threads())) log_info("{}", line);
  if (end.reason == RunEnd::Reason::stopped) {
    if (is_rank_zero) log_stopped(end, plan.data.schedule.steps(), record);
    return ExitCode::stopped;
  }
  const std::string changed = trainer.checked_base();
  const std::int64_t result_step = plan.load_best_model(trainer.state());
  plan.files.write_result();
  if (!changed.empty())
    throw UserError("{}. The result in {} belongs to the earlier file", changed, settings.output_dir);
  if (is_rank_zero) {
    const double seconds = seconds_since(started);
    write_report(settings.output_dir, run_report(plan, *log, seconds, result_step, train_command(record, "", "dml")));
    push_result(file.recipe);
    log_done(outcome_of(log->steps(), log->evals(), result_step), plan, trainer.state(), seconds);
  }
  return ExitCode::ok;
}

}  // namespace dml
