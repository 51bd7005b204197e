#include "pipeline/checkpoints.h"

#include <filesystem>

#include "checkpoint/checkpoint_dir.h"
#include "core/directory.h"
#include "core/error.h"
#include "pipeline/output_folder.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

// The losses are left out where the history cannot be read: a run resumes without it.
void add_losses(CheckpointRow& row) {
  std::string path = row.path + "/trainer_state.json";
  if (!file_exists(path)) return;
  try {
    Json state = read_json(path, kTrainerStateLimits);
    if (!state.is_object() || !state.contains("log_history") || !state["log_history"].is_array()) return;
    for (const Json& entry : state["log_history"]) {
      if (!entry.is_object()) continue;
      if (auto it = entry.find("loss"); it != entry.end() && it->is_number()) row.loss = it->get<double>();
      if (auto it = entry.find("eval_loss");
          it != entry.end() && it->is_number() && json_integer(entry, "step", -1, path) == row.step)
        row.eval_loss = it->get<double>();
    }
  } catch (const UserError&) {
  }
}

// The name of the best checkpoint's folder; "" if none is known.
std::string best_checkpoint(const std::string& output_dir) {
  const std::string path = output_dir + "/best";
  std::string name = file_exists(path) ? read_file(path, 4096) : "";
  while (name.ends_with('\n')) name.pop_back();
  return name;
}

// "it has 300, 200".
std::string steps_it_has(const std::vector<Checkpoint>& all) {
  std::vector<std::string> steps;
  for (const Checkpoint& c : all) steps.push_back(std::to_string(c.step));
  return steps.empty() ? "it has none" : fmt::format("it has {}", fmt::join(steps, ", "));
}

[[noreturn]] void no_such_step(const std::string& output_dir, std::int64_t step, const std::vector<Checkpoint>& all) {
  throw UserError("{}: no checkpoint of step {}; {}", output_dir, step, steps_it_has(all));
}

// The folder of a checkpoint's run, to be typed; "." and ".." do not name their parent.
std::string run_folder_to_type(std::string checkpoint) {
  while (checkpoint.size() > 1 && checkpoint.ends_with('/')) checkpoint.pop_back();
  const std::string name = fs::path(checkpoint).filename();
  return run_folder_of(name == "." || name == ".." ? real_path(checkpoint) : checkpoint);
}

// The step of a folder "checkpoint-STEP"; −1 for other names.
std::int64_t step_in_name(const std::string& folder) {
  const std::string path = real_path(folder);
  for (const Checkpoint& c : list_checkpoints(run_folder_of(path)))
    if (fs::path(c.path).filename() == fs::path(path).filename()) return c.step;
  return -1;
}

// The checkpoint that a folder is by itself, wherever it lies; unset if it is none. Its state may be damaged.
std::optional<Checkpoint> checkpoint_at(const std::string& folder) {
  const std::string state = path_in(folder, "dml_state.json");
  if (!file_exists(state) || !file_exists(path_in(folder, "manifest.json"))) return std::nullopt;
  try {
    return Checkpoint{folder, json_integer(read_json(state, kTrainStateLimits), "step", 0, state)};
  } catch (const UserError&) {
    return Checkpoint{folder, step_in_name(folder)};
  }
}

CheckpointRow row_of(const Checkpoint& c, Compare what) {
  CheckpointRow row{c.path, c.step, {}, {}, folder_bytes(c.path), checkpoint_problem(c, what)};
  add_losses(row);
  return row;
}

}  // namespace

std::vector<CheckpointRow> checkpoint_rows(const std::string& output_dir, bool contents,
                                           std::optional<std::int64_t> step) {
  require_directory(output_dir);
  if (const std::optional<Checkpoint> alone = checkpoint_at(output_dir); alone && (!step || *step == alone->step))
    return {row_of(*alone, contents ? Compare::contents : Compare::sizes)};
  std::vector<Checkpoint> all = list_checkpoints(output_dir);
  std::vector<CheckpointRow> rows;
  bool found_latest = false;
  const std::string best = best_checkpoint(output_dir);
  for (const Checkpoint& c : all) {
    CheckpointRow row = row_of(c, contents && (!step || *step == c.step) ? Compare::contents : Compare::sizes);
    row.latest = row.problem.empty() && !found_latest;
    found_latest |= row.latest;
    row.best = best == fs::path(c.path).filename().string();
    if (!step || *step == c.step) rows.push_back(std::move(row));
  }
  if (step && rows.empty()) no_such_step(output_dir, *step, all);
  return rows;
}

void remove_checkpoint_of_step(const std::string& output_dir, std::optional<std::int64_t> step, bool force) {
  require_directory(output_dir);
  std::vector<Checkpoint> all = list_checkpoints(output_dir);
  auto chosen = step ? std::ranges::find(all, *step, &Checkpoint::step) : all.end();
  if (const auto alone = checkpoint_at(output_dir); chosen == all.end() && alone)
    throw UserError("{}: this is a checkpoint; rm takes the folder of its run: dml ckpt rm {} {}", output_dir,
                    run_folder_to_type(output_dir),
                    step || alone->step >= 0 ? std::to_string(step.value_or(alone->step)) : "STEP");
  if (!step)
    throw UserError("{}: ckpt rm needs the step of a checkpoint ({}), or an earlier run: dml ckpt rm {} STEP",
                    output_dir, steps_it_has(all), output_dir);
  if (chosen == all.end()) no_such_step(output_dir, *step, all);
  auto found = find_checkpoint(output_dir);
  if (!force && found.newest && found.newest->step == *step)
    throw UserError(
        "{}: this is the newest valid checkpoint, which 'dml resume' would continue; add --force to remove it",
        chosen->path);
  if (!force && best_checkpoint(output_dir) == fs::path(chosen->path).filename().string())
    throw UserError(
        "{}: this is the best checkpoint, which load_best_model_at_end would load; add --force to remove it",
        chosen->path);
  remove_checkpoint(*chosen);
}

}  // namespace dml
