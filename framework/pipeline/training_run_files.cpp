// What a training run reads and writes: checkpoints, and its result.
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "pipeline/distribution.h"
#include "pipeline/job.h"
#include "pipeline/model_output.h"
#include "pipeline/optimization.h"
#include "pipeline/optimizer_state.h"
#include "pipeline/recipe_changes.h"
#include "pipeline/training_run.h"

namespace dml {
namespace {

// As the Trainer of transformers logs an evaluation.
Json history_entry(const EvalMetrics& eval) {
  Json entry{{"epoch", eval.epoch}, {"step", eval.step}};
  for (const NamedValue& v : eval.values) entry[v.name] = v.value;
  return entry;
}

}  // namespace

void TrainingRun::start(const std::string& from) {
  // Values come before the strategy spreads them over the ranks, optimizer state when its places are known.
  std::optional<TrainState> found;
  if (!from.empty()) found = load_values(from);
  strategy_->adopt(model_->parameters, optimizer_->state());
  set_empty_pass(*model_, *objective_, *strategy_);
  base_watch_.survive_lost_pages();
  if (!found) return;
  if (in_parts_) {
    load_shard_values(*model_, from, strategy_->shards());
    strategy_->publish();
  }
  read_optimizer_state(from, *strategy_, optimizer_->state());
  if (!strategy_->residuals().empty() && !read_residuals(from, *strategy_, strategy_name(recipe_, comm_), comm_) &&
      comm_.rank() == 0)
    log_warning(
        "comm_dtype: {} was saved by another strategy or number of ranks, so the rounding errors it carried are lost: bits "
        "differ from those of an uninterrupted run",
        from);
  without_improvement_ = json_integer(found->extra, "without_improvement", 0, from);
  const std::string recipe = state_.recipe;  // of an extended run, not the checkpoint's
  state_ = *found;
  state_.recipe = recipe;
}

TrainState TrainingRun::load_values(const std::string& from) {
  TrainState found = load_train_state(from);
  auto same = [&](const std::string& a, const std::string& b, const char* what) {
    if (a != b)
      throw UserError("{}: The {} changed since this checkpoint. Undo the change, or start a new run with --resume none", from,
                      what);
  };
  same(found.data, state_.data, "training data");
  same(found.base, state_.base, "base model");
  check_recipe(found, from);
  if (found.numerics != state_.numerics)
    log_warning("{}: was written by '{}', this program is '{}': results may differ in the last bits", from, found.numerics,
                state_.numerics);
  if (!in_parts_) read_values(from);
  return found;
}

void TrainingRun::check_recipe(const TrainState& found, const std::string& from) const {
  if (found.recipe == state_.recipe) return;
  const std::string before = json_string(found.extra, "recipe", "", from);
  const std::vector<RecipeChange> changes = recipe_changes(before, recipe_text_);
  if (before.empty() || changes.empty())
    throw UserError(
        "{}: The recipe changed since this checkpoint, in settings that change the result. Undo the change, or start a new "
        "run with --resume none",
        from);
  const std::string what = changes_text(changes);
  for (const RecipeChange& c : changes)
    if (c.key != "num_epochs" && c.key != "max_steps")
      throw UserError("{}: The recipe changed since this checkpoint: {}{}. Undo the change, or start a new run with --resume none",
                      from, what,
                      c.key == "batch_size" && !recipe_.train.batch_size
                          ? " (micro_batch_size × gradient_accumulation_steps × ranks)"
                          : "");
  // Another number of steps. The examples of a step do not depend on it; its learning rate may.
  const std::int64_t steps = schedule_.steps(), planned = json_integer(found.extra, "steps", 0, from);
  if (found.step > steps)
    throw UserError("{}: The recipe changed since this checkpoint: {}. It now ends after step {}, the checkpoint is of step {}",
                    from, what, steps, found.step);
  const LearningRate earlier(learning_rate_settings(recipe_.optim, planned));
  for (std::int64_t s = 0; s < found.step; ++s)
    if (earlier.at(s) != learning_rate_.at(s))
      throw UserError(
          "{}: The recipe changed since this checkpoint: {}. With {} steps instead of {}, lr_scheduler: {} gives steps that are "
          "already trained another learning rate (step {}: {:.3e} → {:.3e}), so this run cannot be extended; with "
          "lr_scheduler: constant it could. To train its result further, start a new run from it: {}: {} and another output_dir",
          from, what, steps, planned, recipe_.optim.lr_scheduler, s + 1, earlier.at(s), learning_rate_.at(s),
          recipe_.adapter.adapter == AdapterKind::none || relora_ ? "base_model" : "lora_model_dir",
          recipe_.train.output_dir);
  if (comm_.rank() == 0)
    log_info("{} the run from {} to {} steps ({}). The steps already trained are the same in both, and so is the result",
             steps > planned ? "Extending" : "Shortening", planned, steps, what);
}

void TrainingRun::read_values(const std::string& checkpoint) {
  if (relora_) relora_->load(checkpoint);
  else if (recipe_.adapter.adapter == AdapterKind::none) load_model_values(*model_, checkpoint);
  else load_adapter(*model_, read_adapter(checkpoint, model_->spec, base_.directory), checkpoint);
}

std::int64_t TrainingRun::return_to_best() {
  if (!recipe_.train.load_best_model_at_end || state_.best_step < 0 || state_.best_step == state_.step) return state_.step;
  if (state_.best_step == 0) {
    log_warning("load_best_model_at_end: no evaluation was better than the one before training; the last weights are kept");
    return state_.step;
  }
  std::string best = fmt::format("{}/checkpoint-{}", recipe_.train.output_dir, state_.best_step);
  if (auto problem = manifest_problem(best); !problem.empty())
    throw UserError("load_best_model_at_end: the best evaluation was after step {}, but its checkpoint {} is not complete: {}",
                    state_.best_step, best, problem);
  if (in_parts_) {
    load_shard_values(*model_, best, strategy_->shards());
    strategy_->publish();
  } else {
    strategy_->gather_values();
    read_values(best);
    publish_values(model_->parameters, *strategy_);
  }
  if (best_metric_.name == kEvalLoss && !best_metric_.greater_is_better)
    log_info("The result has the weights of step {}, whose validation loss {:.4f} is the lowest", state_.best_step,
             *state_.best_metric);
  else
    log_info("The result has the weights of step {}, whose {} {:.4f} is the best", state_.best_step, best_metric_.name,
             *state_.best_metric);
  return state_.best_step;
}

TrainerState TrainingRun::trainer_state(const MetricsLog& log) const {
  TrainerState t;
  t.step = state_.step;
  t.max_steps = schedule_.steps();
  t.batch_size = recipe_.train.micro_batch_size;
  t.tokens = state_.tokens;
  t.epoch = state_.epoch;
  t.epochs = recipe_.train.num_epochs;
  t.best_metric = state_.best_metric;
  t.best_step = state_.best_step;
  if (t.best_step >= 0) t.best_checkpoint = fmt::format("{}/checkpoint-{}", recipe_.train.output_dir, t.best_step);
  auto eval = log.evals().begin();
  for (const StepMetrics& m : log.steps()) {
    t.log_history.push_back(
        {{"epoch", m.epoch}, {"step", m.step}, {"loss", m.loss}, {"grad_norm", m.grad_norm}, {"learning_rate", m.lr}});
    for (; eval != log.evals().end() && eval->step <= m.step; ++eval)
      t.log_history.push_back(history_entry(*eval));
  }
  return t;
}

CardFacts TrainingRun::card_facts() const {
  return {state_.step, state_.best_metric, state_.best_step};
}

void TrainingRun::write_weights(const std::string& folder, Dtype dtype, bool result) {
  if (copies_model() && holds_slices()) {
    ModelInParts parts(folder, base_, *model_, dtype);
    if (comm_.rank() == 0) parts.create();
    comm_.barrier();
    parts.write(strategy_->writes_state() ? strategy_->shards() : std::span<Shard>(), comm_.rank() == 0);
  } else if (recipe_.adapter.adapter == AdapterKind::none) {
    strategy_->on_first_rank([&](const DistributionStrategy::Show& show) {
      write_model_directory(folder, base_, *model_, dtype, false, show);
    });
  } else {
    strategy_->gather_values();
    if (comm_.rank() == 0) {
      if (!relora_) write_adapter_directory(folder, *trainable_.adapter, *model_);
      else if (result) write_model_directory(folder, base_, *model_, dtype, true);
      else relora_->save(folder, state_.step);
    }
    strategy_->release_values();
  }
  if (comm_.rank() == 0) companions_->write(folder, card_facts());
}

void TrainingRun::write_result() {
  std::optional<FilesInto> out;
  if (comm_.rank() == 0) out.emplace(recipe_.train.output_dir);
  write_weights(comm_.broadcast_text(out ? out->path() : "", 0), base_.dtype(), true);
  comm_.barrier();
  if (out) {
    out->commit();
    remove_left_over(recipe_.train.output_dir, 2);  // of a killed run that was still going down when this one began
  }
  comm_.barrier();
}

}  // namespace dml
