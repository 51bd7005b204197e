#include "assembly/eval_tasks.h"

#include <algorithm>

#include "assembly/harness_task.h"
#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"

namespace dml {

std::vector<EvalRow> read_eval_rows(const std::vector<std::string>& files) {
  constexpr std::size_t kMaxProblems = 20;
  std::vector<EvalRow> rows;
  Problems problems;
  for (const std::string& path : files) {
    const std::string text = read_file(path);
    for (const Line line : Lines(text)) {
      if (problems.all().size() >= kMaxProblems) break;
      if (line.blank()) continue;
      const std::string place = fmt::format("{}:{}", path, line.number);
      try {
        Json row = parse_json(line.text, place);
        if (!row.is_object()) throw UserError("{}: a row must be an object", place);
        rows.push_back({std::move(row), place});
      } catch (const UserError& e) {
        problems.add(e.what());
      }
    }
  }
  problems.raise();
  return rows;
}

namespace {

// The rows of an entry that is no task of lm-evaluation-harness.
EvalTask own_task(const EvalEntry& e, const std::string& key) {
  EvalTask task{
      .name = e.name, .rows = {}, .raw = e.raw, .max_new_tokens = e.max_new_tokens, .checks = {}, .fail_below = {}};
  for (std::size_t i = 0; i < e.checks.size(); ++i)
    task.checks.push_back(
        {e.checks[i].name, e.checks[i].value, e.checks[i].options, fmt::format("{}.checks.{}", key, i)});
  if (e.path.empty() == e.prompts.empty())
    throw UserError("evals: {}: set either 'path' or 'prompts'", e.name).about(key);
  for (std::size_t i = 0; i < e.prompts.size(); ++i)
    task.rows.push_back({e.prompts[i], "", fmt::format("{}.prompts.{}", key, i)});
  if (!e.path.empty()) task.rows = read_eval_rows({e.path});
  return task;
}

}  // namespace

std::vector<EvalTask> eval_tasks(const EvalSection& section) {
  std::vector<EvalTask> tasks;
  Problems problems;
  for (std::size_t i = 0; i < section.evals.size(); ++i) {
    const EvalEntry& e = section.evals[i];
    const std::string key = fmt::format("evals.{}", i);
    EvalTask task;
    try {
      task = e.task.empty() ? own_task(e, key) : read_harness_task(e.task, e.name, e.path);
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem);
    }
    task.key = key;
    task.fail_below = e.fail_below;
    if (std::ranges::find(tasks, e.name, &EvalTask::name) != tasks.end())
      problems.add(
          {key + ".name", "", fmt::format("evals: two evaluations are called '{}'; names must be unique", e.name)});
    tasks.push_back(std::move(task));
  }
  problems.raise();
  return tasks;
}

}  // namespace dml
