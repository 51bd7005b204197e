#include "diagnose/work_span.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/virtual_threads.h"

namespace dml {
namespace {

constexpr int kRuns = 4;  // measured calls of each kind

// Operations are profiled while it lives.
struct ProfilingOn {
  const bool before = std::exchange(profiling, true);
  ~ProfilingOn() { profiling = before; }
};

// Seconds of one step by operation.
std::map<std::string, double> step_seconds() {
  std::map<std::string, double> seconds;
  for (const ProfileRow& row : profile_rows()) seconds[row.name] = row.seconds - row.saved;
  return seconds;
}

double total(const std::map<std::string, double>& seconds) {
  double sum = 0;
  for (auto& [name, s] : seconds) sum += s;
  return sum;
}

// One step for each number of threads, after a first one with page faults.
std::vector<std::map<std::string, double>> measure(const Recipe& recipe, Comm& comm, BenchOptions options,
                                                   const std::vector<int>& threads) {
  const ProfilingOn on;
  std::vector<std::map<std::string, double>> out;
  std::optional<VirtualThreads> now;
  options.yardstick = false;
  options.warmup = 0;
  options.steps = std::ssize(threads) + 1;
  options.before_step = [&](std::int64_t step, const ModelSpec& spec) {
    if (step > 1) out.push_back(step_seconds());
    now.reset();
    // Which rows an expert reads is computed: all of it has to be right.
    now.emplace(threads[static_cast<std::size_t>(std::max<std::int64_t>(step - 1, 0))],
                spec.moe.experts > 0 ? VirtualThreads::kRunAll : kRuns);
    reset_profile();
  };
  bench(recipe, comm, options);
  out.push_back(step_seconds());
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
  std::vector<int> counts = threads;
  counts.insert(counts.begin(), 1);
  auto steps = measure(recipe, comm, options, counts);
  WorkSpan out;
  out.threads = std::move(threads);
  for (auto& [name, seconds] : steps[0]) out.rows.push_back({name, seconds, {}});
  out.total = {"total", total(steps[0]), {}};
  for (auto& many : std::span(steps).subspan(1)) {
    for (WorkSpan::Row& row : out.rows) row.seconds.push_back(many[row.name]);
    out.total.seconds.push_back(total(many));
  }
  std::ranges::sort(out.rows, std::greater<>{}, &WorkSpan::Row::work);
  return out;
}

}  // namespace dml
