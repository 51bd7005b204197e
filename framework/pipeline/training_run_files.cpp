// What a training run reads and writes: checkpoints, and its result.
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "pipeline/distribution.h"
#include "pipeline/job.h"
#include "pipeline/model_output.h"
#include "pipeline/optimizer_state.h"
#include "pipeline/training_run.h"

namespace dml {
void TrainingRun::start(const std::string& from) {
  // Values come before the strategy spreads them over the ranks, optimizer state when its places are known.
  std::optional<TrainState> found;
  if (!from.empty()) found = load_values(from);
  strategy_->adopt(model_->parameters, optimizer_->state());
  strategy_->set_empty_pass([this] { model_->train({}, {}, *strategy_); });
  if (!found) return;
  if (in_parts_) {
    load_shard_values(*model_, from, strategy_->shards());
    strategy_->publish();
  }
  read_optimizer_state(from, *strategy_, optimizer_->state());
  if (!strategy_->residuals().empty() && !read_residuals(from, *strategy_, strategy_name(recipe_, comm_), comm_) &&
      comm_.rank() == 0)
    log_warning(
        "comm_dtype: {} was saved by another strategy or number of ranks: what rounding took away there is lost, and "
        "bits differ from a run that was not stopped",
        from);
  without_improvement_ = json_integer(found->extra, "without_improvement", 0, from);
  state_ = *found;
}

TrainState TrainingRun::load_values(const std::string& from) {
  TrainState found = load_train_state(from);
  auto same = [&](const std::string& a, const std::string& b, const char* what) {
    if (a != b)
      throw UserError("{}: was made with another {}; start anew with --resume none, or undo the change", from, what);
  };
  same(found.data, state_.data, "set of training data (the prepared folder differs)");
  same(found.base, state_.base, "base model");
  same(found.recipe, state_.recipe, "recipe (settings that change the result differ)");
  if (found.numerics != state_.numerics)
    log_warning("{}: was written by '{}', this is '{}': results may differ in the last bits", from, found.numerics,
                state_.numerics);
  if (!in_parts_) read_values(from);
  return found;
}

void TrainingRun::read_values(const std::string& checkpoint) {
  if (relora_) relora_->load(checkpoint);
  else if (recipe_.adapter.adapter == AdapterKind::none) load_model_values(*model_, checkpoint);
  else load_adapter(*model_, read_adapter(checkpoint, model_->spec, base_.directory), checkpoint);
}

void TrainingRun::return_to_best() {
  if (!recipe_.train.load_best_model_at_end || state_.best_step < 0 || state_.best_step == state_.step) return;
  if (state_.best_step == 0) {
    log_warning(
        "load_best_model_at_end: no evaluation was better than that of the start; the last weights are the result");
    return;
  }
  std::string best = fmt::format("{}/checkpoint-{}", recipe_.train.output_dir, state_.best_step);
  if (auto problem = manifest_problem(best); !problem.empty())
    throw UserError("load_best_model_at_end: the best evaluation was after step {}, but {}: {}", state_.best_step, best,
                    problem);
  if (in_parts_) {
    load_shard_values(*model_, best, strategy_->shards());
    strategy_->publish();
  } else {
    strategy_->gather_values();
    read_values(best);
    publish_values(model_->parameters, *strategy_);
  }
  log_info("the weights of step {}, whose validation loss of {:.4f} is the lowest, are the result", state_.best_step,
           *state_.best_metric);
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
      t.log_history.push_back({{"epoch", eval->epoch}, {"step", eval->step}, {"eval_loss", eval->loss}});
  }
  return t;
}

void TrainingRun::save_tokenizer(const std::string& folder) const {
  save_tokenizer_files(tokenizer_directory(recipe_.model), tokenizer_overrides(recipe_.model), folder);
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
  if (comm_.rank() == 0) save_tokenizer(folder);
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
