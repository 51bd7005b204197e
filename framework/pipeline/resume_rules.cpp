#include "pipeline/resume_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "assembly/job.h"
#include "assembly/optimization.h"
#include "kernels/processor.h"
#include "optim/schedule.h"

namespace dml {
namespace {

// The keys of a recorded recipe that may differ. Those that are free are recorded because the recipes, and so the
// digests, of existing checkpoints have them; recorded_recipe() leaves out all others that are.
struct MayDiffer {
  std::string_view key;
  OnResume effect;
  bool if_saved_in_f32 = false;  // fixed unless saved activations are float32
};
constexpr MayDiffer kMayDiffer[] = {{"num_epochs", OnResume::extends},
                                    {"max_steps", OnResume::extends},
                                    {"dataset_prepared_path", OnResume::free},
                                    {"gradient_checkpointing", OnResume::free, true},
                                    {"gradient_checkpointing_layers", OnResume::free, true}};

// The first of the `trained` steps that has different rates.
std::optional<std::int64_t> first_difference(const LearningRate& a, const LearningRate& b, std::int64_t trained) {
  for (std::int64_t s = 0; s < trained; ++s)
    if (a.at(s) != b.at(s)) return s;
  return std::nullopt;
}

}  // namespace

std::string recorded_recipe(RecipeFile file, int ranks) {
  Recipe& recipe = file.recipe;
  TrainSection& t = recipe.train;
  const TrainSection fresh;
  // Output folder, threads and the times of saves do not change results.
  t.output_dir = fresh.output_dir;
  t.threads = fresh.threads, t.thread_affinity = fresh.thread_affinity, t.ranks = fresh.ranks;
  t.resume_from_checkpoint = fresh.resume_from_checkpoint;
  t.auto_resume_from_checkpoints = fresh.auto_resume_from_checkpoints;
  t.save_steps = fresh.save_steps, t.saves_per_epoch = fresh.saves_per_epoch, t.save_strategy = fresh.save_strategy;
  t.save_total_limit = fresh.save_total_limit, t.save_first_step = fresh.save_first_step,
  t.save_on_signal = fresh.save_on_signal, t.save_in_background = fresh.save_in_background;
  t.nonfinite_patience = fresh.nonfinite_patience, t.dynamic_checkpoint = fresh.dynamic_checkpoint;
  t.prepack_weights = fresh.prepack_weights;
  t.max_time = fresh.max_time, t.logging_steps = fresh.logging_steps;
  t.bf16 = kernels::precision() == DType::bf16 ? Bf16::on : Bf16::off;  // the resolved value of auto
  // The division of a step's micro-batches among ranks does not change results.
  t.batch_size = t.micro_batches_per_step(ranks) * t.micro_batch_size;
  t.gradient_accumulation_steps = fresh.gradient_accumulation_steps;
  if (recipe.data.rows != RowKind::text) t.micro_batch_size = fresh.micro_batch_size;
  DistributionSection distribution;
  // These round gradients, or order their sums.
  distribution.comm_dtype = recipe.distribution.comm_dtype;
  distribution.gradient_tree = recipe.distribution.gradient_tree;
  recipe.distribution = distribution;
  recipe.log = {};
  // As checkpoints of earlier versions have it, in which the key always had a value.
  for (auto* list : {&recipe.data.datasets, &recipe.data.test_datasets, &recipe.data.pretraining_dataset})
    for (DatasetEntry& entry : *list)
      if (!entry.field_system) entry.field_system = "system";
  recipe.adapter.quantized_cache_path = AdapterSection().quantized_cache_path;
  return resolved_yaml(file);
}

OnResume on_resume(std::string_view key, const Recipe& recipe) {
  const auto* row = std::ranges::find(kMayDiffer, key, &MayDiffer::key);
  if (row == std::end(kMayDiffer)) return OnResume::fixed;
  const SavePolicy saved = save_policy(recipe);
  const bool in_f32 = saved.norm_inputs == DType::f32 && saved.intermediates == DType::f32;
  return row->if_saved_in_f32 && !in_f32 ? OnResume::fixed : row->effect;
}

std::optional<RateChange> first_rate_change(const OptimSection& optim, std::int64_t before, std::int64_t after,
                                            std::int64_t trained) {
  const LearningRate earlier(learning_rate_settings(optim, before)), later(learning_rate_settings(optim, after));
  const auto step = first_difference(earlier, later, trained);
  if (!step) return std::nullopt;
  RateChange change{*step, earlier.at(*step), later.at(*step), "", ""};
  ScheduleSettings same_warmup = learning_rate_settings(optim, after);
  same_warmup.warmup_steps = earlier.warmup();
  const std::string warmup = fmt::format("warmup_steps: {}", earlier.warmup());
  if (!first_difference(earlier, LearningRate(same_warmup), trained)) {
    change.cause = optim.warmup_ratio ? fmt::format("warmup_ratio: {:g}", *optim.warmup_ratio)
                                      : "the default warmup, a fraction of the steps,";
    change.instead = warmup;
  } else {
    change.cause = fmt::format("lr_scheduler: {}", optim.lr_scheduler);
    change.instead = "lr_scheduler: constant" + (optim.warmup_ratio ? " and " + warmup : "");
  }
  return change;
}

}  // namespace dml
