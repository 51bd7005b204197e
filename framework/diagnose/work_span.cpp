#include "diagnose/work_span.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/virtual_threads.h"

namespace dml {
namespace {

// Seconds of one step by operation, and on one thread how much work that is.
struct Measured {
  std::map<std::string, double> seconds;
  double total = 0;
};

Measured measure(const Recipe& recipe, Comm& comm, BenchOptions options, int threads) {
  options.yardstick = false;
  VirtualThreads virtual_threads(threads);
  const BenchResult result = bench(recipe, comm, options);
  Measured out;
  for (const ProfileRow& row : result.profile) {
    const double seconds = (row.seconds - row.saved) / static_cast<double>(options.steps);
    out.seconds[row.name] = seconds;
    out.total += seconds;
  }
  return out;
}

}  // namespace

double WorkSpan::efficiency(const Row& row, std::size_t i) const { return row.work / (threads[i] * row.seconds[i]); }

std::vector<std::string> WorkSpan::table() const {
  std::string head = fmt::format("{:<28} {:>10}", "operation", "1 thread");
  for (int count : threads) head += fmt::format(" {:>8}", count);
  std::vector<std::string> lines{head + fmt::format(" {:>9}", "waiting")};
  const std::size_t last = threads.size() - 1;
  const double waiting = threads[last] * total.seconds[last] - total.work;
  auto add = [&](const Row& row) {
    std::string line = fmt::format("{:<28} {:>8.4f} s", row.name, row.work);
    for (std::size_t i = 0; i < threads.size(); ++i) line += fmt::format(" {:>8.2f}", efficiency(row, i));
    const double share = waiting > 0 ? 100 * (threads[last] * row.seconds[last] - row.work) / waiting : 0;
    lines.push_back(line + fmt::format(" {:>7.1f} %", share));
  };
  for (const Row& row : rows) add(row);
  add(total);
  return lines;
}

WorkSpan work_span(const Recipe& recipe, Comm& comm, const BenchOptions& options, std::vector<int> threads) {
  DML_CHECK(comm.size() == 1 && !threads.empty());
  const bool before = std::exchange(profiling, true);
  WorkSpan out;
  out.threads = std::move(threads);
  const Measured one = measure(recipe, comm, options, 1);
  for (auto& [name, seconds] : one.seconds) out.rows.push_back({name, seconds, {}});
  out.total = {"total", one.total, {}};
  for (int count : out.threads) {
    Measured many = measure(recipe, comm, options, count);
    for (WorkSpan::Row& row : out.rows) row.seconds.push_back(many.seconds[row.name]);
    out.total.seconds.push_back(many.total);
  }
  std::ranges::sort(out.rows, std::greater<>{}, &WorkSpan::Row::work);
  profiling = before;
  return out;
}

}  // namespace dml
