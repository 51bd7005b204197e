#include "assembly/eval_tasks.h"

#include <algorithm>

#include "assembly/harness_task.h"
#include "core/error.h"
#include "core/files.h"

namespace dml {
namespace {

constexpr std::size_t kMostErrors = 20;

}  // namespace

void read_eval_rows(const std::string& path, std::vector<EvalRow>& rows, std::vector<std::string>& errors) {
  const std::string text = read_file(path);
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size() && errors.size() < kMostErrors;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    at = end + 1;
    const std::string place = fmt::format("{}:{}", path, ++number);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      Json row = parse_json(line, place);
      if (!row.is_object()) throw UserError("{}: a row must be an object", place);
      rows.push_back({std::move(row), place});
    } catch (const UserError& e) {
      errors.push_back(e.what());
    }
  }
}

namespace {

// The rows of an entry that is no task of lm-evaluation-harness.
EvalTask own_task(const EvalEntry& e, std::vector<std::string>& errors) {
  EvalTask task{
      .name = e.name, .rows = {}, .raw = e.raw, .max_new_tokens = e.max_new_tokens, .checks = {}, .fail_below = {}};
  for (const EvalCheck& c : e.checks) task.checks.push_back({c.name, c.value, c.options});
  if (e.path.empty() == e.prompts.empty())
    errors.push_back(fmt::format("evals: {}: set either 'path' or 'prompts'", e.name));
  for (std::size_t i = 0; i < e.prompts.size(); ++i)
    task.rows.push_back({e.prompts[i], fmt::format("prompt {}", i + 1)});
  if (!e.path.empty()) read_eval_rows(e.path, task.rows, errors);
  return task;
}

}  // namespace

std::vector<EvalTask> eval_tasks(const EvalSection& section) {
  std::vector<EvalTask> tasks;
  std::vector<std::string> errors;
  for (const EvalEntry& e : section.evals) {
    EvalTask task;
    try {
      task = e.task.empty() ? own_task(e, errors) : read_harness_task(e.task, e.name, e.path);
    } catch (const UserError& error) {
      errors.push_back(e.task.empty() ? fmt::format("evals: {}: {}", e.name, error.what()) : error.what());
    }
    task.fail_below = e.fail_below;
    if (std::ranges::find(tasks, e.name, &EvalTask::name) != tasks.end())
      errors.push_back(fmt::format("evals: two are called '{}'", e.name));
    tasks.push_back(std::move(task));
  }
  if (!errors.empty()) throw UserError("{}", fmt::join(errors, "\n"));
  return tasks;
}

}  // namespace dml
