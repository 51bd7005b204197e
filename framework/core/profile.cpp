#include "core/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "core/clock.h"
#include "core/virtual_threads.h"

namespace dml {
namespace {

struct Count {
  std::int64_t calls = 0;
  double seconds = 0, operations = 0, saved = 0, busy = 0;
  std::int64_t bytes = 0;
};

thread_local std::unordered_map<std::string_view, Count> counts;
thread_local ProfileScope* innermost = nullptr;
thread_local double busy_seconds = 0;
std::atomic<std::int64_t> weight_bytes = 0;  // shared by all threads, since workers have no scopes

bool asked_for() {
  const char* text = std::getenv("DML_PROFILE");
  return text && *text && std::string_view(text) != "0";
}

double now() {
  if (virtual_threads() > 0) return virtual_seconds();
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace

bool profiling = asked_for();

void count_weight_bytes(std::int64_t bytes) {
  if (profiling) weight_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void count_busy_seconds(double seconds) { busy_seconds += seconds; }

ProfiledOperation innermost_operation() { return innermost ? innermost->what_ : ProfiledOperation{}; }

void ProfileScope::begin(const ProfiledOperation& what) {
  what_ = what;
  outer_ = innermost;
  innermost = this;
  saved_before_ = virtual_seconds_saved();
  busy_before_ = busy_seconds;
  bytes_before_ = weight_bytes.load(std::memory_order_relaxed);
  start_ = now();
}

void ProfileScope::end() {
  const double seconds = now() - start_, saved = virtual_seconds_saved() - saved_before_;
  const double busy = busy_seconds - busy_before_;
  const std::int64_t bytes = weight_bytes.load(std::memory_order_relaxed) - bytes_before_;
  innermost = outer_;
  if (outer_) {
    outer_->bytes_inside_ += bytes;
    outer_->inside_ += seconds;
    outer_->saved_inside_ += saved;
    outer_->busy_inside_ += busy;
  }
  Count& count = counts[what_.name];
  count.calls += 1;
  count.seconds += seconds - inside_;
  count.operations += what_.operations;
  count.saved += saved - saved_inside_;
  count.busy += busy - busy_inside_;
  count.bytes += bytes - bytes_inside_;
}

void reset_profile() { counts.clear(); }

std::vector<ProfileRow> profile_rows() {
  std::vector<ProfileRow> rows;
  for (auto& [name, c] : counts)
    rows.push_back({std::string(name), c.calls, c.seconds, c.operations, c.saved, c.busy, c.bytes});
  std::ranges::sort(rows,
                    [](auto& a, auto& b) { return a.seconds != b.seconds ? a.seconds > b.seconds : a.name < b.name; });
  return rows;
}

std::vector<std::string> profile_table(const std::vector<ProfileRow>& rows, int threads) {
  double total = 0, busy = 0;
  for (auto& r : rows) total += r.seconds, busy += r.busy;
  std::vector<std::string> lines{fmt::format("{:<28} {:>8} {:>10} {:>7} {:>8} {:>9} {:>8}", "operation", "calls",
                                             "seconds", "share", "waiting", "GFLOP/s", "GB/s")};
  auto rate = [](double count, double seconds) {
    return count > 0 ? fmt::format("{:.1f}", count / seconds * 1e-9) : "";
  };
  auto waiting = [threads](double working, double seconds) {
    return seconds > 0 ? std::clamp(100 * (1 - working / (threads * seconds)), 0.0, 100.0) : 0;
  };
  for (auto& r : rows)
    lines.push_back(fmt::format("{:<28} {:>8} {:>10.4f} {:>5.1f} % {:>6.1f} % {:>9} {:>8}", r.name, r.calls, r.seconds,
                                total > 0 ? 100 * r.seconds / total : 0, waiting(r.busy, r.seconds),
                                rate(r.operations, r.seconds), rate(static_cast<double>(r.weight_bytes), r.seconds)));
  lines.push_back(fmt::format("{:<28} {:>8} {:>10.4f} {:>7} {:>6.1f} %", "total", "", total, "", waiting(busy, total)));
  return lines;
}

}  // namespace dml
