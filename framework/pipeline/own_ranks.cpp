#include "pipeline/own_ranks.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "assembly/job.h"
#include "assembly/memory_plan.h"
#include "assembly/vocabulary.h"
#include "core/affinity.h"
#include "core/error.h"
#include "core/json.h"
#include "core/memory_limits.h"
#include "data/prepare.h"
#include "data/schedule.h"
#include "diagnose/launch.h"
#include "diagnose/weightless_model.h"
#include "dist/started_rank.h"
#include "kernels/processor.h"
#include "pipeline/preflight.h"

namespace dml {
namespace {

constexpr const char* kLayoutVariable = "DML_LAYOUT";  // {"threads": 2, "why": "…"}
// What a core does of a step, as measured on several processors.
constexpr double kRate = 80e9, kRateOfBf16 = 150e9;

bool in_batch_job() {
  for (const char* variable : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID"})
    if (std::getenv(variable)) return true;
  return false;
}

// What speaks against more than one rank, whatever the model and the data are.
std::string reason_for_one_rank(const Recipe& recipe) {
  if (recipe.train.micro_batches_per_step(1) < 2) return "a step has one micro-batch";
  if (!recipe.distribution.gradient_tree) return "with gradient_tree: false, ranks would change the bits";
  if (recipe.distribution.comm_dtype == DType::bf16) return "with comm_dtype: bf16, ranks would change the bits";
  if (recipe.preference.sampling()) return "one rank samples all completions of a step together";
  if (addresses_limited()) return "the address space is limited";
  if (in_batch_job()) return "a batch job starts its own ranks";
  return "";
}

// Bytes of several ranks: mapped weights are there once.
auto memory_of(WeightlessModel& model, const Schedule& schedule, std::size_t copied) {
  return [&, copied](std::int64_t ranks) -> std::optional<std::size_t> {
    try {
      const MemoryPlan plan = model.plan(schedule.longest(), schedule.most_documents(), static_cast<int>(ranks));
      const std::size_t shared = plan.frozen - std::min(plan.frozen, copied);
      return shared + static_cast<std::size_t>(ranks) * (plan.total() - shared);
    } catch (const UserError&) {  // a strategy that does not train on so many
      return std::nullopt;
    }
  };
}

// `launched`: ranks bring micro-batches of their own, and are wanted however short the run is.
LayoutChoice fastest_layout_of(const Recipe& recipe, const Topology& host, bool launched) {
  const auto tokenizer = open_tokenizer(recipe.model);
  BaseModel base = open_checked_base(recipe, *tokenizer);
  base.spec = spec_with_rows(base.spec, tokens_with_rows(*tokenizer, recipe.adapter));
  const Prepared prepared =
      prepare(recipe.data, recipe.templates, static_cast<std::uint64_t>(recipe.train.seed), *tokenizer);
  const Examples examples = prepared.train();
  if (examples.empty()) return {{1, host.cores}, ""};  // training says so
  const Schedule schedule(examples.lengths(),
                          train_schedule(recipe.data, recipe.train, 1, recipe.preference.sampling()));
  WeightlessModel weightless(recipe, base.spec, storage_of(base));

  const bool full = recipe.adapter.adapter == AdapterKind::none;
  const bool bf16 = recipe.train.bf16 != Bf16::off && kernels::has_fast_bf16();
  RunShape run;
  run.steps = schedule.steps();
  run.micro_batches = schedule.most_micro_batches();
  run.tokens = static_cast<double>(schedule.tokens()) / static_cast<double>(run.steps * run.micro_batches);
  run.width = static_cast<double>(base.spec.hidden);
  if (launched) {
    run.steps = std::numeric_limits<std::int64_t>::max();
    run.micro_batches = recipe.train.micro_batches_per_step(host.cores);
  }
  run.operations = (full ? 6 : 4) * static_cast<double>(base.spec.parameters());
  run.rate = bf16 ? kRateOfBf16 : kRate;
  run.exchanged = static_cast<double>(weightless.model().parameters.trainable()) * sizeof(float);
  // Weights from no file, or in another type than its own, are copied by every rank.
  const bool copied = !base.files || recipe.model.frozen_storage.has_value();
  run.memory = memory_of(weightless, schedule, copied ? SIZE_MAX : 0);
  return choose_layout(host, available_memory(), run);
}

}  // namespace

Topology own_host() {
  Topology host = this_topology();
  host.cores = std::min(host.cores, available_cores());
  return host;
}

LayoutChoice layout_of(const RecipeFile& file, const Topology& host) {
  const TrainSection& train = file.recipe.train;
  const std::int64_t ranks = std::max<std::int64_t>(1, train.ranks);
  const RankLayout given{ranks, train.threads.value_or(std::max(1, static_cast<int>(host.cores / ranks)))};
  if (train.ranks > 0) return {given, fmt::format("ranks: {}", train.ranks)};
  if (train.threads || host.cores < kFewCores) return {given, ""};
  if (const std::string reason = reason_for_one_rank(file.recipe); !reason.empty()) return {given, reason};
  return with_places(file, [&] { return fastest_layout_of(file.recipe, host, false); });
}

LayoutChoice launched_layout_of(const RecipeFile& file, const Topology& host) {
  const TrainSection& train = file.recipe.train;
  if (train.threads) return {{std::max<std::int64_t>(1, host.cores / *train.threads), *train.threads}, ""};
  if (host.cores < kFewCores || file.recipe.preference.sampling()) return {{host.cores, 1}, ""};
  return with_places(file, [&] { return fastest_layout_of(file.recipe, host, true); });
}

void pass_layout_to_ranks(const LayoutChoice& choice) {
  const Json told{{"threads", choice.layout.threads}, {"why", choice.why}};
  setenv(kLayoutVariable, told.dump(-1, ' ', true, Json::error_handler_t::replace).c_str(), 1);
}

std::optional<LayoutChoice> layout_from_parent() {
  const char* text = std::getenv(kLayoutVariable);
  if (!text || !is_started_rank()) return std::nullopt;
  const Json told = parse_json(text, kLayoutVariable);
  LayoutChoice choice;
  choice.layout.threads = json_integer(told, "threads", 1, kLayoutVariable);
  choice.why = json_string(told, "why", "", kLayoutVariable);
  return choice;
}

}  // namespace dml
