// run.json in an output directory records how the run was started (recipe, command-line settings, ranks, launcher), so
// that `dml resume DIR` can start it again, and every hint shows the whole command.
//
//   {"format": 1, "version": "…", "started": "2026-01-31T12:00:00Z", "host": "…", "directory": "/…",
//    "recipe": "recipe.yml", "output_dir": "out", "overrides": ["--num_epochs=3"], "ranks": 2, "launch": ["-n", "2"],
//    "mpirun": [], "own_ranks": false, "steps": 600}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "recipe/recipe.h"

namespace dml {

struct RunRecord {
  std::string version, started, host;  // informational
  std::string directory;               // working directory, the base of relative paths in the recipe
  std::string recipe, output_dir;      // as given on the command line
  std::vector<std::string> overrides;  // "--key=value"
  int ranks = 1;
  std::vector<std::string> launch;  // options of dml launch; empty if it did not start the ranks
  std::vector<std::string> mpirun;  // "mpirun" and its options; empty if it was not used
  bool own_ranks = false;           // dml train started them by itself (pipeline/own_ranks.h)
  std::int64_t steps = 0;           // of the whole run, as planned; 0 in records of earlier versions
  bool operator==(const RunRecord&) const = default;
};

/// The record of this process's run.
RunRecord current_run(const RecipeFile& recipe, const std::vector<Override>& overrides, const Comm& comm);

void write_run_record(const std::string& output_dir, const RunRecord& record);
/// Reads the record. UserError when the directory holds none, with the command that resumes the run if there is one.
RunRecord read_run_record(const std::string& output_dir);

/// "train RECIPE --key=value … [--resume RESUME]".
std::vector<std::string> train_arguments(const RunRecord& record, const std::string& resume);
/// The command that starts the run again, as one shell command line: its launcher, dml, train_arguments(). `program`:
/// the name or path of dml.
std::string train_command(const RunRecord& record, const std::string& resume, const std::string& program);

/// Changes to the directory in which a run was started; a warning when it is gone. Hints are then given for the
/// directory in which the user is.
void enter_directory_of(const RunRecord& record);
/// `path`, absolute where the user is in another directory.
std::string path_for_user(const std::string& path);
/// train_command() for the directory in which the user is: "cd DIRECTORY && …" if that is another one.
std::string command_for_user(const RunRecord& record, const std::string& resume, const std::string& program);

/// The name by which this process was started: "dml", or a path.
std::string program_name();

/// dml launch passes its options to the ranks in this environment variable.
inline constexpr const char* kLaunchVariable = "DML_LAUNCH";
void export_launch_options(const std::vector<std::string>& options);

}  // namespace dml
