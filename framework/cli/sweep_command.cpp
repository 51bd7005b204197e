// dml sweep: trains one recipe with many settings.
#include <algorithm>
#include <set>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "pipeline/sweep.h"
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

// A key must not be set by both, since only one of the values would be used.
void check_set_once(const std::vector<Override>& overrides, const std::vector<SweepCombination>& grid) {
  Problems problems;
  for (const Override& o : overrides)
    if (std::ranges::any_of(grid, [&](const SweepCombination& row) { return row.settings.contains(o.key); }))
      problems.add(fmt::format("'{0}' is set by the grid and by --{0}; remove one of them", o.key));
  problems.raise();
}

// The recipe with the settings of the command line and of one combination of the grid.
RecipeFile with_settings(const Sweep& s, const SweepCombination& row) {
  std::vector<Override> all = s.overrides;
  for (auto& [key, value] : row.settings.items())
    all.push_back({key, value.is_string() ? value.get<std::string>() : dump(value), row.places.at(key)});
  return load_recipe(s.recipe, all);
}

// A problem of a combination: of one value, at its place in the grid; others, with the combination.
std::string line_of(const Problem& problem, const SweepCombination& row) {
  const bool in_grid = std::ranges::any_of(row.places, [&](auto& of) { return of.second == problem.place; });
  return in_grid ? problem.line() : fmt::format("{}: {}", dump(row.settings), problem.line());
}

// Every combination is checked before the first one is trained.
void check_combinations(const Sweep& s, const std::vector<SweepCombination>& grid) {
  Problems problems;
  std::set<std::string> seen;
  for (const SweepCombination& row : grid) try {
      with_settings(s, row);
    } catch (const UserError& e) {
      for (const Problem& problem : e.problems())
        if (std::string line = line_of(problem, row); seen.insert(line).second) problems.add(std::move(line));
    }
  problems.raise();
}

int run_sweep_command(const std::vector<std::string>& words) {
  Sweep s;
  s.options.parse(words);
  if (!s.grid) throw UserError("sweep needs --grid FILE");
  const std::vector<SweepCombination> grid = sweep_grid(read_file(*s.grid), *s.grid);
  check_set_once(s.overrides, grid);
  check_combinations(s, grid);
  const RecipeFile file = load_recipe(s.recipe, s.overrides);
  const std::vector<SweepRun> runs =
      run_sweep(file, s.overrides, grid, s.output.value_or(file.recipe.train.output_dir + "-sweep"), output_options());
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
