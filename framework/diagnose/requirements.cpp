#include "diagnose/requirements.h"

#include <algorithm>
#include <filesystem>

#include "assembly/companions.h"
#include "assembly/memory_plan.h"
#include "assembly/optimization.h"
#include "checkpoint/checkpoint_dir.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/memory_limits.h"
#include "core/size_text.h"
#include "data/report.h"
#include "data/schedule.h"
#include "diagnose/weightless_model.h"
#include "dist/strategy.h"

namespace dml {
namespace {

// Tokens and documents of the largest micro-batch, of one rank that trains alone.
struct LargestBatch {
  std::int64_t tokens = 0, documents = 1;
  bool exact = false;
};

LargestBatch largest_batch(const Recipe& recipe, const ExampleLengths& lengths) {
  LargestBatch out;
  if (!lengths.train.empty()) {
    const Schedule schedule(lengths.train, train_schedule(recipe.data, recipe.train, 1, recipe.preference.sampling()));
    return {schedule.longest(), schedule.most_documents(), true};
  }
  const std::int64_t rows = recipe.train.micro_batch_size;
  out.tokens = rows * recipe.data.sequence_len;
  out.documents = recipe.data.sample_packing ? std::min(out.tokens, rows * recipe.data.sample_packing_bin_size) : rows;
  return out;
}

// Whether one rank holds all of the run.
bool on_one_rank(const DistributionSection& d) {
  return !d.distribution || !strategies().at(*d.distribution).make.shares_memory;
}

// The checkpoint that the recipe resumes from; "": none. Contents are not compared.
std::string resumed_checkpoint(const TrainSection& train) {
  const std::string asked = train.resume_from_checkpoint.value_or(train.auto_resume_from_checkpoints ? "auto" : "none");
  if (asked != "auto") return asked == "none" ? "" : asked;
  for (const Checkpoint& c : list_checkpoints(train.output_dir))
    if (checkpoint_problem(c, Compare::sizes).empty()) return c.path;
  return "";
}

// The number of checkpoints that one rank adds; 1 where it is not known.
std::int64_t checkpoints_of(const Recipe& recipe, const ExampleLengths& lengths) {
  const TrainSection& train = recipe.train;
  if (lengths.train.empty()) return train.save_strategy == IntervalStrategy::never ? 0 : 1;
  const Schedule schedule(lengths.train, train_schedule(recipe.data, train, 1, recipe.preference.sampling()));
  return added_checkpoints(train, Calendar(train, schedule), resumed_checkpoint(train));
}

}  // namespace

std::int64_t most_checkpoints(const TrainSection& train, std::int64_t saves) {
  const std::int64_t limit = train.save_total_limit;
  if (train.save_strategy == IntervalStrategy::best)
    return std::min<std::int64_t>(saves, 1);  // as often as it improves
  return limit > 0 && saves > limit ? limit + 1 : saves;
}

std::int64_t added_checkpoints(const TrainSection& train, const Calendar& calendar, const std::string& from) {
  if (train.save_strategy == IntervalStrategy::never) return 0;
  std::int64_t room = most_checkpoints(train, calendar.checkpoints());
  if (!from.empty()) {
    const std::int64_t step = load_train_state(from).step;
    if (calendar.checkpoints(step) == 0) return 0;
    room -= std::ranges::count_if(list_checkpoints(train.output_dir), [&](auto& c) { return c.step <= step; });
    room = std::min(room, calendar.checkpoints(step));
  }
  return std::max<std::int64_t>(1, room);
}

void check_disk_space(const std::string& directory, std::size_t bytes) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(nearest_existing(directory), error);
  if (error || space.available == static_cast<std::uintmax_t>(-1) || space.available >= bytes) return;
  throw UserError("not enough disk space: this run writes at least {}, and {} is available in {}", size_text(bytes),
                  size_text(static_cast<std::size_t>(space.available)), directory)
      .about("output_dir");
}

const char* length_settings(const Recipe& recipe) {
  return recipe.preference.rl == Rl::grpo ? "sequence_len and trl.max_completion_length" : "sequence_len";
}

Requirements requirements(const Recipe& recipe, const BaseModel& base, const ExampleLengths& lengths) {
  Requirements out;
  WeightlessModel weightless(recipe, base.spec, storage_of(base));
  auto attempt = [&](auto&& part) {
    try {
      part();
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) out.problems.push_back(problem);
    }
  };
  attempt([&] { set_learning_rates(weightless.model().parameters, recipe.optim, recipe.adapter); });
  attempt([&] { out.notes = idle_optimizer_targets(weightless.model().parameters, recipe.optim); });
  const std::int64_t checkpoints = checkpoints_of(recipe, lengths);
  const std::size_t tokenizer = tokenizer_bytes(recipe.model);
  const std::size_t disk = weightless.result_bytes() + tokenizer +
                           static_cast<std::size_t>(checkpoints) * (weightless.checkpoint_bytes() + tokenizer);
  attempt([&] { check_disk_space(recipe.train.output_dir, disk); });

  const LargestBatch batch = largest_batch(recipe, lengths);
  const MemoryPlan plan = weightless.plan(batch.tokens, batch.documents);
  const std::size_t need = plan.total() - plan.process, room = available_memory();
  if (room > 0 && need > room) {
    std::string kinds;
    for (auto& [name, bytes] : plan.rows())
      if (name != "process") kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", name, size_text(bytes));
    const std::string text = fmt::format(
        "not enough memory: {}this run needs {} and {} is available ({}); reduce micro_batch_size or {}, set "
        "gradient_checkpointing: true, or use adapter: qlora",
        batch.exact ? "" : fmt::format("with micro-batches of {} tokens ", grouped(batch.tokens)), size_text(need),
        size_text(room), kinds, length_settings(recipe));
    if (batch.exact && on_one_rank(recipe.distribution)) out.problems.push_back({"micro_batch_size", "", text});
    else out.notes.push_back(text + (batch.exact ? " (on one rank)" : ""));
  } else {
    out.notes.push_back(
        fmt::format("training takes {}{} of memory besides the process and copies for checkpoints; {} and the result "
                    "take {} on disk",
                    batch.exact ? "" : "up to ", size_text(need), counted(checkpoints, "checkpoint", "checkpoints"),
                    size_text(disk)));
  }
  return out;
}

}  // namespace dml
