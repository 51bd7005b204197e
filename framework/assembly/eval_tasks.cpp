#include "assembly/eval_tasks.h"

#include <algorithm>

#include "core/error.h"
#include "core/files.h"

namespace dml {
namespace {

constexpr std::size_t kMostErrors = 20;

void read_rows(const std::string& path, std::vector<EvalRow>& rows, std::vector<std::string>& errors) {
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

}  // namespace

std::vector<EvalTask> eval_tasks(const EvalSection& section) {
  std::vector<EvalTask> tasks;
  std::vector<std::string> errors;
  for (const EvalEntry& e : section.evals) {
    EvalTask task{e.name, {}, e.raw, e.max_new_tokens, {}, e.fail_below};
    for (const EvalCheck& c : e.checks) task.checks.push_back({c.name, c.value, c.options});
    if (e.path.empty() == e.prompts.empty()) errors.push_back(fmt::format("evals: {}: set either 'path' or 'prompts'", e.name));
    for (std::size_t i = 0; i < e.prompts.size(); ++i)
      task.rows.push_back({e.prompts[i], fmt::format("prompt {}", i + 1)});
    try {
      if (!e.path.empty()) read_rows(e.path, task.rows, errors);
    } catch (const UserError& error) {
      errors.push_back(fmt::format("evals: {}: {}", e.name, error.what()));
    }
    if (std::ranges::find(tasks, e.name, &EvalTask::name) != tasks.end())
      errors.push_back(fmt::format("evals: two are called '{}'", e.name));
    tasks.push_back(std::move(task));
  }
  if (!errors.empty()) throw UserError("{}", fmt::join(errors, "\n"));
  return tasks;
}

}  // namespace dml
