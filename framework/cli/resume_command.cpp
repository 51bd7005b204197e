// dml resume: restarts a run as it was started (run.json of its output directory), from its newest checkpoint.
#include <filesystem>

#include "checkpoint/checkpoint_dir.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "diagnose/launch.h"
#include "dist/started_rank.h"
#include "pipeline/run_record.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

struct Resume {
  std::string directory;
  bool dry_run = false;
  std::vector<Override> overrides;
  Options options{"resume",
                  "resume DIR [--KEY VALUE …]",
                  {"dml resume outputs/run                       with the same recipe, settings and ranks",
                   "dml resume outputs/run/checkpoint-300        from this checkpoint",
                   "dml resume outputs/run --max_steps 2000      extends it, where the learning rate allows that",
                   "dml resume outputs/run --dry-run             print the command line"}};
  Resume() {
    options.about(
        "Continues a run with the recipe, settings, launcher and number of ranks that it was started with, from its "
        "newest complete checkpoint. A setting given here replaces the run's; one that would change steps "
        "already done is refused.");
    options.positional("DIR", directory, "the output directory of a run, or one of its checkpoints");
    options.flag("dry-run", dry_run, "print the command line without starting anything");
    options.take_overrides(overrides);
  }
};

std::string absolute(const std::string& path) {
  fs::path p = fs::absolute(path).lexically_normal();
  return (p.has_filename() ? p : p.parent_path()).string();
}

std::string in_directory(const std::string& directory, const std::string& path) {
  return (fs::path(directory) / path).string();
}

// The run's folder may have been moved and its recipe edited: the run continues in this folder with its original
// recipe.
void follow(RunRecord& record, const std::string& folder) {
  const std::string own = folder + "/recipe.yml", given = in_directory(record.directory, record.recipe);
  if (file_exists(own) && (!file_exists(given) || read_file(given) != read_file(own))) {
    log_info("{} has changed or is gone: resuming with the recipe that the run had, {}", record.recipe, own);
    record.recipe = own;
  }
  const bool overridden = real_path(in_directory(record.directory, record.output_dir)) != real_path(folder);
  if (overridden) {
    std::erase_if(record.overrides, [](const std::string& o) { return o.starts_with("--output_dir="); });
    record.overrides.push_back("--output_dir=" + folder);
  }
}

// The checkpoint to resume from: `directory` itself, or "auto" if it is a run's folder with a checkpoint.
std::string checkpoint_of(const std::string& directory, const std::string& folder, const RunRecord& record) {
  if (directory != folder) {
    if (auto problem = manifest_problem(directory, Compare::sizes); !problem.empty())
      throw UserError("{}: not a complete checkpoint: {}", directory, problem);
    return directory;
  }
  for (const Checkpoint& c : list_checkpoints(folder)) {
    require_directory(c.path);
    if (manifest_problem(c.path, Compare::sizes).empty()) return "auto";
  }
  throw UserError("{}: no complete checkpoint to resume from; to start the run again: {}", folder,
                  train_command(record, "", program_name()));
}

// Without a hostfile `dml launch` refuses --interface, which earlier versions ignored and recorded.
void leave_out_interface(std::vector<std::string>& launch) {
  if (std::ranges::find(launch, "--hostfile") != launch.end()) return;
  const auto option = std::ranges::find(launch, "--interface");
  if (std::ssize(launch) - (option - launch.begin()) >= 2) launch.erase(option, option + 2);
}

int resume(const std::vector<std::string>& words) {
  Resume r;
  r.options.parse(words);
  const std::string directory = absolute(r.directory);
  const bool is_checkpoint =
      fs::path(directory).filename().string().starts_with(kCheckpointPrefix) && !file_exists(directory + "/run.json");
  const std::string folder = is_checkpoint ? fs::path(directory).parent_path().string() : directory;
  RunRecord record = read_run_record(folder);
  const std::string from = checkpoint_of(directory, folder, record);
  follow(record, folder);
  leave_out_interface(record.launch);
  for (const Override& o : r.overrides) {
    if (o.key == "output_dir")
      throw UserError(
          "--output_dir: the run continues in its own directory, {}; to continue it in another one: dml train {} "
          "--resume {}/checkpoint-STEP --output_dir {}",
          folder, record.recipe, r.directory, o.value);
    std::vector<std::string> all = alternatives_of(o.key);
    all.push_back(o.key);
    for (const std::string& replaced : all)
      std::erase_if(record.overrides,
                    [&](const std::string& earlier) { return earlier.starts_with("--" + replaced + "="); });
    record.overrides.push_back("--" + o.key + "=" + o.value);
  }
  if (is_started_rank()) record.launch = record.mpirun = {};
  else if (record.ranks > 1 && !record.own_ranks && record.launch.empty() && record.mpirun.empty())
    throw UserError(
        "{}: the run had {} ranks, started by a launcher that is not known here; start as many in the same way, as in: "
        "srun -n {} dml resume {}",
        folder, record.ranks, record.ranks, r.directory);
  const std::string line = train_command(record, from, program_name());
  if (r.dry_run) {
    print(line + "\n");
    return 0;
  }
  enter_directory_of(record);
  log_info("Resuming: {}", line);
  std::vector<std::string> train = train_arguments(record, from);
  train.insert(train.end(), output_options().begin(), output_options().end());
  if (!record.launch.empty()) {
    std::vector<std::string> launch = record.launch;
    launch.insert(launch.end(), train.begin(), train.end());
    return launch_command().run(launch);
  }
  if (!record.mpirun.empty()) {
    std::vector<std::string> all = record.mpirun;
    all.push_back(this_host().program);
    all.insert(all.end(), train.begin(), train.end());
    return run_launcher(all, true);
  }
  return train_command().run({train.begin() + 1, train.end()});
}

}  // namespace

Command resume_command() {
  return {"resume", "continues a run that was stopped, as it was started", [] { return Resume().options.page(); },
          resume, Ranks::many};
}

}  // namespace dml
