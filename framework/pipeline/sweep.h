// dml sweep: a recipe trained with every combination of some values, one run after the other.
//
// The grid is a YAML table: each key's list is multiplied with the others; the entries of `_`, tables of keys that
// belong together, are multiplied with all of them. Runs are numbered in the order of the file, the last key fastest.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "recipe/recipe.h"

namespace dml {

/// One combination: keys of the recipe and their values, in the order of the grid.
using SweepSettings = Json;

/// UserError with the place where the grid is none.
std::vector<SweepSettings> sweep_grid(const std::string& text, const std::string& source);

struct SweepRun {
  std::string name;  // "run-01"
  SweepSettings settings;
  int exit = -1;                                                             // −1: not run yet
  Json train_loss = nullptr, eval_loss = nullptr, best_eval_loss = nullptr;  // as its metrics.jsonl has them
};

/// Trains what has not been trained yet, by this program, into folders of `directory`; `directory`/sweep.jsonl has a
/// line for every run that ended. A run that failed does not end the sweep; one that was stopped does. `overrides` are
/// for all runs, but for output_dir; with others than before, a run is trained again.
std::vector<SweepRun> run_sweep(const std::string& recipe, const std::vector<Override>& overrides,
                                const std::vector<SweepSettings>& grid, const std::string& directory);

/// A row for every run: its settings, losses and how it ended.
std::string sweep_table(const std::vector<SweepRun>& runs);

}  // namespace dml
