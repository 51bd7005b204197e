// dml sweep: trains a recipe with every combination of some values, one run after the other.
//
// The grid is a YAML mapping from keys to lists, of which all combinations are run. The entries of the list `_` are
// mappings of keys that vary together. Runs are numbered in the order of the file, the last key varying fastest.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "recipe/recipe.h"

namespace dml {

/// One combination: keys of the recipe and their values, in the order of the grid.
using SweepSettings = Json;

/// Parses a grid. UserError with the place of the error.
std::vector<SweepSettings> sweep_grid(const std::string& text, const std::string& source);

struct SweepRun {
  std::string name;  // "run-01"
  SweepSettings settings;
  int exit = -1;                                                             // −1: not run yet
  Json train_loss = nullptr, eval_loss = nullptr, best_eval_loss = nullptr;  // from its metrics.jsonl
};

/// Trains the remaining runs with this program, into folders of `directory`; `directory`/sweep.jsonl has one line per
/// finished run. A failed run does not end the sweep; a stopped one does. `overrides` apply to all runs (output_dir
/// excepted); if they changed, a run is trained again.
std::vector<SweepRun> run_sweep(const std::string& recipe, const std::vector<Override>& overrides,
                                const std::vector<SweepSettings>& grid, const std::string& directory);

/// One row per run: its settings, losses and how it ended.
std::string sweep_table(const std::vector<SweepRun>& runs);

}  // namespace dml
