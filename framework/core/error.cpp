#include "core/error.h"

#include <cerrno>
#include <cstring>

namespace dml {

IoError::IoError(const std::string& path, const std::string& what)
    : Error(ExitCode::io, fmt::format("{}: {}: {}", path, what, std::strerror(errno))) {}

namespace {

std::string lines_of(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) text += (text.empty() ? "" : "\n") + problem.line();
  return text;
}

}  // namespace

UserError::UserError(std::vector<Problem> problems)
    : Error(ExitCode::user, lines_of(problems)),
      problems_(std::make_shared<const std::vector<Problem>>(std::move(problems))) {}

UserError UserError::about(const std::string& key) const {
  std::vector<Problem> problems = *problems_;
  for (Problem& problem : problems)
    if (problem.key.empty()) problem.key = key;
  return UserError(std::move(problems));
}

void check_failed(const char* condition, const char* file, int line, const std::string& text) {
  throw Error(ExitCode::internal,
              fmt::format("internal error at {}:{}: {}{}{}", file, line, condition, text.empty() ? "" : ": ", text));
}

}  // namespace dml
