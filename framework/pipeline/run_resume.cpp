// Reads checkpoints back into the plan: where a run resumes, and its best one at the end.
#include "assembly/distribution.h"
#include "assembly/model_output.h"
#include "assembly/optimizer_state.h"
#include "checkpoint/checkpoint_dir.h"
#include "core/error.h"
#include "core/log.h"
#include "pipeline/recipe_changes.h"
#include "pipeline/resume_rules.h"
#include "pipeline/run_plan.h"
#include "train/average.h"
#include "train/finite_state.h"

namespace dml {

TrainState RunPlan::start(const std::string& from) {
  // Values are read before the strategy distributes them over the ranks, optimizer state after its layout is known.
  std::optional<TrainState> found;
  if (!from.empty()) found = load_values(from);
  strategy->adopt(model().parameters, optimizer->state());
  set_empty_pass(model(), *objective, *strategy);
  base_files.tolerate_unreadable_pages();
  find_references(found.has_value() && !trains_in_parts(recipe, *strategy));
  if (!found) return fresh_;
  if (trains_in_parts(recipe, *strategy)) {
    load_shard_values(model(), from, strategy->shards());
    strategy->publish();
  }
  read_optimizer_state(from, *strategy, optimizer->state());
  if (const std::string damage = FiniteState(*strategy, optimizer->state()).damage(); !damage.empty())
    throw UserError("{}: {} is not a finite number; resume from an earlier checkpoint", from, damage);
  switch_to_training_point(*optimizer, *strategy);
  if (!read_residuals(from, *strategy, strategy_name(recipe, comm), comm) && comm.rank() == 0)
    log_warning(
        "comm_dtype: {} was saved by another strategy or number of ranks, so the rounding errors it carried are lost: "
        "bits differ from those of an uninterrupted run",
        from);
  objective->read_state(from, found->extra.value(kObjectiveState, Json()));
  found->extra.erase(kObjectiveState);
  remember_best_checkpoint(*found, from, recipe.train.output_dir);
  found->recipe = fresh_.recipe;  // of an extended run, not the checkpoint's
  for (auto& [key, value] : fresh_.extra.items()) found->extra[key] = value;
  return *found;
}

TrainState RunPlan::load_values(const std::string& from) {
  TrainState found = load_train_state(from);
  auto same = [&](const std::string& a, const std::string& b, const char* what) {
    if (a != b)
      throw UserError(
          "{}: The {} changed since this checkpoint. Undo the change, or start a new run: dml train RECIPE --resume "
          "none",
          from, what);
  };
  check_recipe(found, from);  // first: a changed setting may also change the prepared data
  same(found.data, fresh_.data, "training data");
  same(found.base, fresh_.base, "base model");
  for (const auto& [key, what] : {std::pair{kRewardModels, "reward model"},
                                  std::pair{kEvals, "data of 'evals'"},
                                  {kStartAdapter, "adapter in 'lora_model_dir'"}})
    if (found.extra.contains(key))  // not in checkpoints of earlier versions
      same(json_string(found.extra, key, "", from), json_string(fresh_.extra, key, "", from), what);
  if (found.numerics != fresh_.numerics)
    log_warning("{}: was written by '{}', this program is '{}': results may differ in the last bits", from,
                found.numerics, fresh_.numerics);
  if (!trains_in_parts(recipe, *strategy)) trained->load(from);
  return found;
}

void RunPlan::check_recipe(const TrainState& found, const std::string& from) const {
  if (found.recipe == fresh_.recipe) return;
  const std::string before = json_string(found.extra, "recipe", "", from);
  std::vector<RecipeChange> changes = recipe_changes(before, recipe_text_);
  if (before.empty() || changes.empty())
    throw UserError(
        "{}: The recipe changed since this checkpoint, in settings that change the result. Undo the change, or start a "
        "new run: dml train RECIPE --resume none",
        from);
  std::erase_if(changes, [&](const RecipeChange& c) { return on_resume(c.key, recipe) == OnResume::free; });
  if (changes.empty()) return;
  const std::string what = changes_text(changes);
  for (const RecipeChange& c : changes)
    if (on_resume(c.key, recipe) == OnResume::fixed)
      throw UserError(
          "{}: The recipe changed since this checkpoint: {}{}. Undo the change, or start a new run: dml train RECIPE "
          "--resume none",
          from, what,
          c.key == "batch_size" && !recipe.train.batch_size
              ? " (micro_batch_size × gradient_accumulation_steps × ranks)"
              : "");
  // The number of steps may change: it does not change the examples of a step, but may change its learning rate.
  const std::int64_t steps = data.schedule.steps(), planned = json_integer(found.extra, "steps", 0, from);
  if (found.step > steps)
    throw UserError(
        "{}: The recipe changed since this checkpoint: {}. It now ends after step {}, the checkpoint is of step {}",
        from, what, steps, found.step);
  if (const auto change = first_rate_change(recipe.optim, planned, steps, found.step))
    throw UserError(
        "{}: The recipe changed since this checkpoint: {}. With {} steps instead of {}, {} changes the learning "
        "rate of completed steps (step {}: {:.3e} → {:.3e}), so this run cannot be extended; one that starts with {} "
        "can be. To train its result further, start a new run from it: {}: {} and another output_dir",
        from, what, steps, planned, change->cause, change->step + 1, change->before, change->after, change->instead,
        trained->continuation_key(), recipe.train.output_dir);
  if (comm.rank() == 0 && steps != planned)
    log_info(
        "{} the run from {} to {} steps ({}). The steps already trained are the same in both, and so is the result",
        steps > planned ? "Extending" : "Shortening", planned, steps, what);
}

std::int64_t RunPlan::load_best_model(const TrainState& state) {
  switch_to_average(*optimizer, *strategy);
  if (!recipe.train.load_best_model_at_end || state.best_step == state.step) return state.step;
  if (state.best_step <= 0) {
    log_warning("load_best_model_at_end: no evaluation gave a number for {}; the last weights are kept",
                best_metric.name);
    return state.step;
  }
  const std::string best = best_checkpoint_of(state, recipe.train.output_dir);
  if (auto problem = manifest_problem(best); !problem.empty()) {
    log_warning(
        "load_best_model_at_end: the best evaluation was after step {}, but its checkpoint {} is not complete ({}); "
        "the last weights are kept",
        state.best_step, best, problem);
    return state.step;
  }
  files.load_weights(best);
  if (best_metric.name == kEvalLoss && !best_metric.greater_is_better)
    log_info("The result has the weights of step {}, whose validation loss {:.4f} is the lowest", state.best_step,
             *state.best_metric);
  else
    log_info("The result has the weights of step {}, whose {} {:.4f} is the best", state.best_step, best_metric.name,
             *state.best_metric);
  return state.best_step;
}

}  // namespace dml
