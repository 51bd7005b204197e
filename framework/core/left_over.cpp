#include "core/left_over.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "core/clock.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTemporary = ".tmp-";

// Whether a process has ended. A killed process is still listed until its parent waits for it.
bool is_gone(pid_t process) {
  if (kill(process, 0) != 0) return errno == ESRCH;
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string stat;  // "PID (NAME) STATE …"
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(')');
  return name_end != stat.npos && name_end + 2 < stat.size() &&
         (stat[name_end + 2] == 'Z' || stat[name_end + 2] == 'X');
}

// The process that writes ".NAME.tmp-PID…".
std::optional<pid_t> writer_of(std::string_view name) {
  const std::size_t at = name.rfind(kTemporary);
  if (!name.starts_with('.') || at == name.npos) return std::nullopt;
  const std::string_view digits = name.substr(at + kTemporary.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  const bool whole = end == digits.data() + digits.size() || *end == '-';
  return error == std::errc() && whole && process > 0 ? std::optional(process) : std::nullopt;
}

template <class F>
void each_name(const fs::path& folder, F use) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    use(it->path(), it->path().filename().string());
}

void remove_all(const std::vector<fs::path>& paths) {
  std::error_code ignored;
  for (const fs::path& path : paths) fs::remove_all(path, ignored);
}

}  // namespace

std::string temporary_name(const std::string& target) {
  static std::atomic<unsigned> serial{0};
  const fs::path path(target);
  return (path.parent_path() / fmt::format(".{}{}{}-{}", path.filename().string(), kTemporary, getpid(), serial++))
      .string();
}

void remove_left_over(const std::string& folder, double patience) {
  const auto start = Clock::now();
  for (bool again = true; again;) {
    again = false;
    std::vector<fs::path> left_over;
    each_name(folder, [&](const fs::path& path, const std::string& name) {
      const std::optional<pid_t> writer = writer_of(name);
      if (!writer || *writer == getpid()) return;
      if (is_gone(*writer)) left_over.push_back(path);
      else again = seconds_since(start) < patience;
    });
    remove_all(left_over);
    if (again) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void remove_left_over_of(const std::string& target) {
  fs::path path(target);
  if (!path.has_filename()) path = path.parent_path();  // "DIR/"
  const std::string begin = fmt::format(".{}{}", path.filename().string(), kTemporary);
  std::vector<fs::path> left_over;
  each_name(path.has_parent_path() ? path.parent_path() : ".", [&](const fs::path& found, const std::string& name) {
    if (const auto writer = writer_of(name); name.starts_with(begin) && writer && is_gone(*writer))
      left_over.push_back(found);
  });
  remove_all(left_over);
}

}  // namespace dml
