// dml sweep: trains a recipe with every combination of some values, one run after the other.
//
// The grid is a YAML mapping from keys to lists, of which all combinations are run. The entries of the list `_` are
// mappings of keys that vary together. Runs are numbered in the order of the file, the last key varying fastest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "recipe/recipe.h"

namespace dml {

/// Keys of the recipe and their values, in the order of the grid.
using SweepSettings = Json;

/// One combination, and the place of every value in the grid's file, "FILE:LINE:COLUMN".
struct SweepCombination {
  SweepSettings settings = Json::object();
  std::map<std::string, std::string> places;
  std::string inputs = {};  // digest of its recipe and of the files that it reads, set by check_sweep()
};

/// Parses a grid. Keys and lists with a problem go to `problems`, with their places; the combinations are those of the
/// others. UserError for a text that is no YAML table.
std::vector<SweepCombination> sweep_grid(const std::string& text, const std::string& source, Problems& problems);

/// Checks every combination as `dml validate` does. UserError with all problems, at their places in the grid, behind
/// those that are known already. Models and data of the Hub are downloaded, unless problems are known. `recipe`: the
/// recipe's path.
void check_sweep(const std::string& recipe, const std::vector<Override>& overrides, std::vector<SweepCombination>& grid,
                 const std::string& directory, const Problems& known = {});

/// "run-01", the folder of run 0.
std::string sweep_run_name(std::size_t number);

struct SweepRun {
  std::string name;  // "run-01"
  SweepSettings settings;
  int exit = -1;                                                             // −1: not run yet
  Json train_loss = nullptr, eval_loss = nullptr, best_eval_loss = nullptr;  // from its metrics.jsonl
  Json reward = nullptr;                                                     // the mean of its last steps
};

/// Trains the remaining runs of a grid that was checked with this program, into folders of `directory`;
/// `directory`/sweep.jsonl has one line per finished run. A failed run does not end the sweep; a stopped one does.
/// `overrides` apply to all runs (output_dir excepted). A run whose recipe, settings or files changed is trained again.
/// `output_options`: as --quiet, for dml train.
std::vector<SweepRun> run_sweep(const std::string& recipe, const std::vector<Override>& overrides,
                                const std::vector<SweepCombination>& grid, const std::string& directory,
                                const std::vector<std::string>& output_options);

/// One row per run: its settings, reward if any run has one, losses and how it ended.
std::string sweep_table(const std::vector<SweepRun>& runs);

}  // namespace dml
