// Log messages on stderr; results go to stdout (cli/output.h). Only rank 0 prints, except for errors, which name their
// rank.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace dml {

enum class LogLevel { debug, info, warning, error, silent };

void set_log_level(LogLevel level);
/// Ranks other than 0 print errors only, prefixed with "[rank N]".
void set_log_rank(int rank);

void log_line(LogLevel level, const std::string& text);

template <class... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::debug, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::info, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::warning, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::error, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace dml
