#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace dml {
namespace {

int log_rank = 0;
LogLevel log_level = LogLevel::info;

spdlog::logger& logger() {
  static auto instance = [] {
    auto l = spdlog::stderr_logger_mt("dml");
    l->set_pattern("%v");
    l->set_level(spdlog::level::trace);
    return l;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { log_level = level; }
void set_log_rank(int rank) { log_rank = rank; }

void log_line(LogLevel level, const std::string& text) {
  if (level < log_level || (log_rank != 0 && level < LogLevel::error)) return;
  const char* mark = level == LogLevel::warning ? "warning: " : level == LogLevel::error ? "error: " : "";
  std::string who = log_rank != 0 ? fmt::format("[rank {}] ", log_rank) : "";
  logger().log(spdlog::level::info, "{}{}{}", who, mark, text);
  logger().flush();
}

}  // namespace dml
