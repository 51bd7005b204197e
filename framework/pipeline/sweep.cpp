#include "pipeline/sweep.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "diagnose/launch.h"
#include "pipeline/run_outcome.h"
#include "pipeline/sweep_record.h"
#include "recipe/codecs.h"
#include "recipe/keys.h"
#include "recipe/reader.h"
#include "train/run_metrics.h"

namespace dml {
namespace {

constexpr std::size_t kMaxRuns = 10000;
constexpr const char* kPairs = "_";

/// Reads a grid; errors go to the report.
class GridReader {
 public:
  explicit GridReader(recipe::Report& report) : report_(report) {}

  /// The entries of a key's list, each as settings: {key: value} or a table of `_`; one without settings if there is a
  /// problem. A value that is given twice is a problem, a table that is given twice is one entry.
  std::vector<SweepCombination> choices(const recipe::Node& key, const recipe::Node& list) const {
    std::vector<SweepCombination> out;
    const bool known = key.text == kPairs || check_key(key);
    if (list.kind != recipe::Node::Kind::list || list.items.empty())
      report_.error(key.place,
                    fmt::format("'{}' must be a list of values, is {}", key.text, dump(recipe::to_json(list))));
    else if (known)
      for (const recipe::Node& value : list.items) {
        SweepCombination choice;
        if (key.text == kPairs) put_table(choice, value);
        else put(choice, key, value);
        const auto first = std::ranges::find(out, choice.settings, &SweepCombination::settings);
        if (first == out.end()) out.push_back(std::move(choice));
        else if (key.text != kPairs)
          report_.error(value.place, fmt::format("'{}' has the value {} twice; the first is at {}", key.text,
                                                 dump(choice.settings[key.text]), first->places.at(key.text)));
      }
    if (out.empty()) out.emplace_back();
    return out;
  }

 private:
  bool check_key(const recipe::Node& key) const {
    if (key.text == "output_dir") {
      report_.error(key.place, "'output_dir' cannot be in a grid: every run gets its own folder inside --output");
      return false;
    }
    if (key.text.find('.') != key.text.npos) return true;  // of nested keys, the recipe knows more
    try {
      help_for(key.text);
      return true;
    } catch (const UserError& e) {
      report_.error(key.place, e.what());
      return false;
    }
  }
  void put_table(SweepCombination& choice, const recipe::Node& table) const {
    if (table.kind != recipe::Node::Kind::map)
      return report_.error(table.place,
                           fmt::format("an entry of '_' must be a table of keys, is {}", dump(recipe::to_json(table))));
    for (std::size_t i = 0; i < table.keys.size(); ++i)
      if (check_key(table.keys[i])) put(choice, table.keys[i], table.items[i]);
  }
  void put(SweepCombination& choice, const recipe::Node& key, const recipe::Node& value) const {
    choice.settings[key.text] = recipe::to_json(value);
    choice.places[key.text] = report_.at(value.place);
  }

  recipe::Report& report_;
};

void read_results(const std::string& folder, SweepRun& run) {
  if (!file_exists(folder + "/metrics.jsonl")) return;
  const RunMetrics metrics = read_metrics(folder);
  if (!metrics.steps.empty()) run.train_loss = metrics.steps.back().loss;
  if (const std::optional<double> reward = last_reward(metrics.steps)) run.reward = *reward;
  for (const EvalMetrics& e : with_loss(metrics.evals)) {
    run.eval_loss = e.loss();
    if (e.step == 0) continue;  // of the weights that the run began with
    if (!(run.best_eval_loss.is_number() && run.best_eval_loss.get<double>() <= e.loss()))
      run.best_eval_loss = e.loss();
  }
}

// One word, since a value may begin with "--".
std::string setting_word(const std::string& key, const Json& value) {
  return fmt::format("--{}={}", key, text_or_json(value));
}
std::string number_text(const Json& value) {
  return value.is_number() ? fmt::format("{:.4f}", value.get<double>()) : "";
}

int train_run(std::vector<std::string> words, const Json& overrides, const SweepRun& run, const std::string& folder) {
  words.insert(words.begin(), {this_host().program, "train"});
  words.push_back(setting_word("output_dir", folder));
  const auto replaced = [&](const std::string& key) { return run.settings.contains(key); };
  for (auto& [key, value] : overrides.items())
    if (!replaced(key) && !std::ranges::any_of(alternatives_of(key), replaced))
      words.push_back(setting_word(key, value));
  for (auto& [key, value] : run.settings.items()) words.push_back(setting_word(key, value));
  return run_launcher(words, true);
}

// The runs of a grid. A run that the folder has already keeps its name, wherever the grid has its settings now; the
// others get the numbers of their places, or those after the grid.
std::vector<SweepRun> named_runs(const std::vector<SweepCombination>& grid, const SweepRecords& records) {
  std::vector<SweepRun> runs;
  std::set<std::string> taken;
  for (const SweepCombination& choice : grid) {
    const SweepRecord* known = records.find(choice.settings, choice.inputs);
    runs.push_back({known ? known->name : "", choice.settings});
    if (known) taken.insert(known->name);
  }
  for (std::size_t i = 0, further = runs.size(); i < runs.size(); ++i) {
    if (!runs[i].name.empty()) continue;
    runs[i].name = sweep_run_name(i);
    while (taken.contains(runs[i].name)) runs[i].name = sweep_run_name(further++);
  }
  return runs;
}

}  // namespace

std::vector<SweepCombination> sweep_grid(const std::string& text, const std::string& source, Problems& problems) {
  recipe::Report report(source);
  const recipe::Node grid = recipe::read_yaml(text, report);
  report.raise();
  if (grid.kind != recipe::Node::Kind::map || grid.items.empty())
    throw UserError("{}: a grid is a table: keys of the recipe, and a list of values for each", source);
  std::vector<SweepCombination> all(1);
  Problems twice;
  std::map<std::string, std::pair<std::string, std::string>> set;  // by setting: the key that sets it first, its place
  const GridReader reader(report);
  for (std::size_t i = 0; i < grid.items.size(); ++i) {
    const std::vector<SweepCombination> choices = reader.choices(grid.keys[i], grid.items[i]);
    auto set_by_now = set;
    for (const SweepCombination& choice : choices) {
      auto together = set;
      for (auto& [key, place] : choice.places) {
        const auto [other, first] = together.emplace(setting_of(key), std::pair{key, place});
        const auto& [other_key, other_place] = other->second;
        if (!first)
          twice.add({key, place,
                     fmt::format("'{}' is also set at {}{}", key, other_place,
                                 other_key == key ? "" : fmt::format(", as '{}'", other_key))});
      }
      set_by_now.merge(together);
    }
    set = std::move(set_by_now);
    if (all.size() * choices.size() > kMaxRuns) throw UserError("{}: more than {} runs", source, kMaxRuns);
    std::vector<SweepCombination> next;
    for (const SweepCombination& before : all)
      for (const SweepCombination& choice : choices) {
        next.push_back(before);
        next.back().settings.update(choice.settings);
        for (auto& [key, place] : choice.places) next.back().places[key] = place;
      }
    all = std::move(next);
  }
  for (const Problem& problem : report.problems()) problems.add(problem);
  for (const Problem& problem : twice.all()) problems.add(problem);
  return all;
}

std::string sweep_run_name(std::size_t number) { return fmt::format("run-{:02}", number + 1); }

std::vector<SweepRun> run_sweep(const std::string& recipe, const std::vector<Override>& overrides,
                                const std::vector<SweepCombination>& grid, const std::string& directory,
                                const std::vector<std::string>& output_options) {
  Json common = Json::object();  // of all runs
  for (const Override& o : overrides)
    if (o.key != "output_dir") common[o.key] = o.value;
  make_directories(directory);
  SweepRecords records(directory);
  std::vector<SweepRun> runs = named_runs(grid, records);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    SweepRun& run = runs[i];
    const std::string &inputs = grid[i].inputs, folder = directory + "/" + run.name;
    bool holds_another = false;
    if (const SweepRecord* known = records.find(run.settings, inputs); known && known->exit == 0) {
      run.exit = 0;
      log_info("{}: finished before", run.name);
    } else {
      log_info("{} ({} of {}): {}", run.name, i + 1, runs.size(), dump(run.settings));
      const bool replaces = records.replaces_another(run.name, run.settings, inputs);
      std::vector<std::string> words{recipe, "--resume", replaces ? "none" : "auto"};
      words.insert(words.end(), output_options.begin(), output_options.end());
      run.exit = train_run(std::move(words), common, run, folder);
      holds_another = replaces && run.exit == static_cast<int>(ExitCode::user);  // refused before it replaced it
      if (!holds_another) records.put({run.name, run.settings, common, inputs, run.exit});
    }
    if (!holds_another) read_results(folder, run);
    if (run.exit == static_cast<int>(ExitCode::stopped) || run.exit > 128) {
      log_warning("{} was stopped, and so is the sweep; the same command continues it", run.name);
      break;
    }
  }
  return runs;
}

std::string sweep_table(const std::vector<SweepRun>& runs) {
  std::vector<std::string> keys;
  for (const SweepRun& run : runs)
    for (auto& [key, value] : run.settings.items())
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  const bool rewards = std::ranges::any_of(runs, [](const SweepRun& run) { return run.reward.is_number(); });
  std::string out = "| run |", line = "|---|";
  for (const std::string& key : keys) out += fmt::format(" {} |", key), line += "---|";
  if (rewards) out += " reward |", line += "--:|";
  out += " loss | eval loss | lowest | exit |\n" + line + "--:|--:|--:|--:|\n";
  for (const SweepRun& run : runs) {
    out += fmt::format("| {} |", run.name);
    for (const std::string& key : keys)
      out += fmt::format(" {} |", run.settings.contains(key) ? text_or_json(run.settings[key]) : "");
    if (rewards) out += fmt::format(" {} |", number_text(run.reward));
    out += fmt::format(" {} | {} | {} | {} |\n", number_text(run.train_loss), number_text(run.eval_loss),
                       number_text(run.best_eval_loss), run.exit < 0 ? "" : std::to_string(run.exit));
  }
  return out;
}

}  // namespace dml
