// Checks the combinations of a sweep before the first one is trained.
#include <algorithm>
#include <map>
#include <utility>

#include "assembly/hub_files.h"
#include "core/error.h"
#include "pipeline/input_digests.h"
#include "pipeline/preflight.h"
#include "pipeline/sweep.h"
#include "pipeline/sweep_record.h"

namespace dml {
namespace {

// The settings of the command line and of one combination, for a run in `folder`.
std::vector<Override> settings_of(const std::vector<Override>& overrides, const SweepCombination& row,
                                  const std::string& folder) {
  std::vector<Override> all = overrides;
  std::erase_if(all, [](const Override& o) { return o.key == "output_dir"; });
  all.push_back({"output_dir", folder});
  for (auto& [key, value] : row.settings.items()) {
    for (const std::string& other : alternatives_of(key))
      std::erase_if(all, [&](const Override& o) { return o.key == other; });
    all.push_back({key, text_or_json(value), row.places.at(key)});
  }
  return all;
}

// Checks one combination, that of the run `name`, and sets its `inputs`. One that is finished needs nothing any more.
std::vector<Problem> problems_of(const std::string& recipe, const std::vector<Override>& settings,
                                 const std::string& name, SweepCombination& row, const SweepRecords& records,
                                 CheckedRows& checked, bool download) {
  try {
    RecipeFile file = examine_recipe(recipe, settings);
    if (download && !file.missing.empty() && file.problems.empty()) download_missing_files(file);
    if (file.problems.empty() && file.missing.empty()) {
      row.inputs = digest_of_inputs(file);
      if (const SweepRecord* known = records.find(row.settings, row.inputs); known && known->exit == 0) return {};
    }
    // As run_sweep() starts it.
    file.recipe.train.resume_from_checkpoint.reset();
    file.recipe.train.auto_resume_from_checkpoints = !records.replaces_another(name, row.settings, row.inputs);
    return validate(file, &checked).problems;
  } catch (const UserError& e) {
    return e.problems();
  }
}

// The problems of all combinations, each once. One that is not at the place of a value of the grid is a problem of the
// recipe if every combination has it, else of its combination.
class SweepProblems {
 public:
  SweepProblems(const std::vector<SweepCombination>& grid, const Problems& known) : grid_(grid), known_(known) {}

  void add(std::size_t combination, const std::vector<Problem>& found) {
    for (const Problem& problem : found) {
      const auto known = std::ranges::find_if(all_, [&](const Entry& e) { return e.line == problem.line(); });
      if (known == all_.end())
        all_.push_back({problem.line(), combination, combination, in_grid(grid_[combination], problem.place)});
      else if (std::exchange(known->last, combination) != combination) ++known->combinations;
    }
  }
  void raise() const {
    Problems out = known_;
    std::map<std::size_t, int> told;  // lines of a combination
    for (const Entry& e : all_) {
      const bool of_recipe = grid_.size() > 1 && e.combinations == grid_.size();
      if (e.in_grid || of_recipe) out.add(e.line);
      else if (++told[e.first] <= kMaxLines) out.add(at_combination(e.first) + e.line);
    }
    for (const auto& [combination, lines] : told)
      if (lines > kMaxLines) out.add(fmt::format("{}{} more problems", at_combination(combination), lines - kMaxLines));
    out.raise();
  }

 private:
  static constexpr int kMaxLines = 3;
  struct Entry {
    std::string line;
    std::size_t first = 0, last = 0;  // combinations that have it
    bool in_grid = false;
    std::size_t combinations = 1;
  };
  static bool in_grid(const SweepCombination& row, const std::string& place) {
    return std::ranges::any_of(row.places, [&](auto& of) { return of.second == place; });
  }
  std::string at_combination(std::size_t number) const {
    const SweepCombination& row = grid_[number];
    const std::string place = row.settings.empty() ? sweep_run_name(number) : row.places.at(row.settings.begin().key());
    return fmt::format("{}: {}: ", place, dump(row.settings));
  }

  const std::vector<SweepCombination>& grid_;
  const Problems& known_;
  std::vector<Entry> all_;
};

}  // namespace

void check_sweep(const std::string& recipe, const std::vector<Override>& overrides, std::vector<SweepCombination>& grid,
                 const std::string& directory, const Problems& known) {
  SweepProblems problems(grid, known);
  const SweepRecords records(directory);
  CheckedRows checked;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const std::string name = sweep_run_name(i);
    problems.add(i, problems_of(recipe, settings_of(overrides, grid[i], directory + "/" + name), name, grid[i], records,
                                checked, known.empty()));
  }
  problems.raise();
}

}  // namespace dml
