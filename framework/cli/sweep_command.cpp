// dml sweep: trains one recipe with many settings.
#include <algorithm>
#include <map>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "pipeline/sweep.h"
#include "recipe/keys.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

struct Sweep {
  std::string recipe;
  std::optional<std::string> grid, output;
  std::vector<Override> overrides;
  Options options{"sweep",
                  "sweep RECIPE --grid FILE [--output DIR] [--KEY VALUE ...]",
                  {"dml sweep recipe.yml --grid grid.yml", "dml sweep recipe.yml --grid grid.yml --output sweeps/lr",
                   "dml sweep recipe.yml --grid grid.yml --max_steps 20"}};
  Sweep() {
    options.about(
        "Trains the recipe with every combination of the grid's values, one run after the other, and prints a table. "
        "The grid is a YAML table: each key of it has a list of values; '_' has a list of tables whose keys belong "
        "together. The same command continues a sweep that was stopped: finished runs are not repeated. Runs share "
        "prepared data.");
    options.positional("RECIPE", recipe, "the recipe");
    options.text("grid", grid, "the grid", "FILE");
    options.text("output", output, "a folder for the runs; default: output_dir of the recipe with -sweep appended",
                 "DIR");
    options.take_overrides(overrides);
  }
};

// A setting must not be made by both, since only one of the values would be used.
void check_set_once(const std::vector<Override>& overrides, const std::vector<SweepCombination>& grid,
                    Problems& problems) {
  std::map<std::string, std::string> in_grid;  // by setting: its key
  for (const SweepCombination& row : grid)
    for (auto& [key, place] : row.places) in_grid.emplace(setting_of(key), key);
  for (const Override& o : overrides)
    if (const auto found = in_grid.find(setting_of(o.key)); found != in_grid.end())
      problems.add(fmt::format("'{}' is set by the grid and by --{}; remove one of them", found->second, o.key));
}

// OUTPUT_DIR-sweep, also for "OUTPUT_DIR/".
std::string default_folder(std::string output_dir) {
  while (output_dir.size() > 1 && output_dir.ends_with('/')) output_dir.pop_back();
  return output_dir + "-sweep";
}

int run_sweep_command(const std::vector<std::string>& words) {
  Sweep s;
  s.options.parse(words);
  if (!s.grid) throw UserError("sweep needs --grid FILE");
  const bool has_folder = std::ranges::find(s.overrides, "output_dir", &Override::key) != s.overrides.end();
  if (s.output && has_folder) throw UserError("--output_dir: every run gets its own folder inside --output");
  Problems problems;
  std::vector<SweepCombination> grid = sweep_grid(read_file(*s.grid), *s.grid, problems);
  check_set_once(s.overrides, grid, problems);
  const std::string folder =
      s.output ? *s.output : default_folder(examine_recipe(s.recipe, s.overrides).recipe.train.output_dir);
  check_sweep(s.recipe, s.overrides, grid, folder, problems);
  const std::vector<SweepRun> runs = run_sweep(s.recipe, s.overrides, grid, folder, output_options());
  print(sweep_table(runs));
  int worst = 0;
  for (const SweepRun& run : runs)
    if (run.exit != 0 && worst == 0) worst = run.exit < 0 ? static_cast<int>(ExitCode::stopped) : run.exit;
  return worst;
}

}  // namespace

Command sweep_command() {
  return {"sweep", "trains a recipe with many settings, one run after the other", [] { return Sweep().options.page(); },
          run_sweep_command};
}

}  // namespace dml
