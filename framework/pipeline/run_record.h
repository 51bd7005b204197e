// run.json in an output directory: how the run was started (recipe, settings of the command line, ranks, launcher), so
// that `dml resume DIR` can start it again, and every hint names the whole command.
//
//   {"format": 1, "version": "…", "started": "2026-01-31T12:00:00Z", "host": "…", "directory": "/…",
//    "recipe": "recipe.yml", "output_dir": "out", "overrides": ["--num_epochs=3"], "ranks": 2, "launch": ["-n", "2"],
//    "mpirun": [], "own_ranks": false}
#pragma once

#include <string>
#include <vector>

#include "dist/comm.h"
#include "recipe/recipe.h"

namespace dml {

struct RunRecord {
  std::string version, started, host;  // for people
  std::string directory;               // working directory: relative paths of the recipe start there
  std::string recipe, output_dir;      // as they were given
  std::vector<std::string> overrides;  // "--key=value"
  int ranks = 1;
  std::vector<std::string> launch;  // options of dml launch; empty when it did not start the ranks
  std::vector<std::string> mpirun;  // "mpirun" and its options; empty likewise
  bool own_ranks = false;           // dml train started them by itself (pipeline/own_ranks.h)
  bool operator==(const RunRecord&) const = default;
};

/// The run of this process.
RunRecord current_run(const RecipeFile& recipe, const std::vector<Override>& overrides, const Comm& comm);

void write_run_record(const std::string& output_dir, const RunRecord& record);
/// UserError, with the command that resumes it if there is one, when the directory holds no record.
RunRecord read_run_record(const std::string& output_dir);

/// "train RECIPE --key=value … [--resume RESUME]".
std::vector<std::string> train_words(const RunRecord& record, const std::string& resume);
/// The command that starts the run again, as one line for a shell: its launcher, dml, train_words(). `program`: how dml
/// is called.
std::string train_command(const RunRecord& record, const std::string& resume, const std::string& program);

/// How this process was called: "dml", or a path.
std::string program_name();

/// dml launch tells the ranks by this variable which options it was given.
inline constexpr const char* kLaunchVariable = "DML_LAUNCH";
void export_launch_options(const std::vector<std::string>& options);

}  // namespace dml
