// Reference scores of a run that learns from preferences: the pass before its first step.
#include "assembly/distribution.h"
#include "assembly/objective_choice.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "pipeline/input_digests.h"
#include "pipeline/reference_pass.h"
#include "pipeline/run_plan.h"
#include "train/progress.h"

namespace dml {

// The digest covers all that determines a score: the data, the model at the start, the arithmetic, and, where documents
// are paired with each other, their order.
std::string RunPlan::reference_path() const {
  RecipeFile start;
  start.recipe.model = recipe.model;
  start.recipe.adapter = recipe.adapter;
  start.recipe.adapter.quantized_cache_path.clear();
  start.recipe.train.seed = recipe.train.seed;
  Hasher hasher;
  hasher.text(resolved_yaml(start)).text(base_digest).text(fresh_.numerics);
  if (trains_bf16(recipe)) hasher.text("values in bf16");  // the model at the start is rounded
  if (recipe.preference.ld_alpha) hasher.text(fmt::format("ld_alpha {}", *recipe.preference.ld_alpha));
  if (recipe.adapter.starts_from_adapter()) hasher.text(digest_of_adapter(*recipe.adapter.lora_model_dir, true));
  if (recipe.data.rows == RowKind::labeled) hasher.text(fresh_.recipe);
  return fmt::format("{}/reference-{}.safetensors", data.prepared.folder(), hasher.digest());
}

void RunPlan::find_references(bool values_loaded) {
  if (!recipe.preference.needs_reference()) return;
  const ReferenceSource source = reference_source(recipe, model());
  if (source == ReferenceSource::moving)
    return log_info("Reference  follows the trained weights every {}, mixed with {} of them; evaluated in every step",
                    counted(recipe.preference.trl.ref_model_sync_steps, "step", "steps"),
                    recipe.preference.trl.ref_model_mixup_alpha);
  if (source == ReferenceSource::base)
    return log_info("Reference  the base, by a pass without the adapter in every step");
  const bool mismatched = loader_options(recipe, data.references, false).mismatched;
  std::vector<ReferencePart> parts{
      {data.train, data.schedule, data.loader, mismatched ? &data.references.mismatched : nullptr}};
  std::optional<Loader> validation;
  if (data.eval_schedule) {
    validation.emplace(data.validation, *data.eval_schedule, loader_options(recipe, data.references, true));
    parts.push_back({data.validation, *data.eval_schedule, *validation,
                     mismatched ? &data.references.mismatched_validation : nullptr});
  }
  const std::int64_t examples = data.prepared.all().size();
  forget(data.references, examples, parts);
  const std::string path = reference_path();
  read_references(path, data.references);
  if (!comm.any(!complete(data.references, parts))) {
    log_info("Reference  log-probabilities from {}", path);
    return;
  }
  if (values_loaded)
    throw UserError(
        "{}: is missing or damaged, and the model that this run began with is gone; start a new run: "
        "dml train RECIPE --resume none",
        path);
  forget(data.references, examples, parts);  // ranks may have read different files
  const auto start = Clock::now();
  compute_references(parts, model(), *strategy, comm, data.references);
  if (comm.rank() == 0) write_references(path, data.references);
  comm.barrier();
  log_info("Reference  {}: log-probabilities of {} in {}",
           recipe.adapter.starts_from_adapter() ? "the adapter that the run starts from"
                                                : "the model that the run starts from",
           counted(data.train.size() + data.validation.size(), "example", "examples"),
           clock_text(seconds_since(start)));
}

}  // namespace dml
