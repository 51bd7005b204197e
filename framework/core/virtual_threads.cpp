#include "core/virtual_threads.h"

#include <ctime>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "core/error.h"

namespace dml {
namespace {

std::atomic<int> count_of_threads = 0;
thread_local double saved = 0, not_run = 0;

// Calls of one kind that were run.
struct Measured {
  double seconds = 0, saved = 0;
  int calls = 0;
};
thread_local std::map<VirtualCall, Measured> measured;
thread_local double enough_seconds = VirtualThreads::kRunAll;

}  // namespace

VirtualThreads::VirtualThreads(int count, double enough) {
  DML_CHECK(count >= 1);
  DML_CHECK(count_of_threads.exchange(count) == 0);
  measured.clear();
  enough_seconds = enough;
}
VirtualThreads::~VirtualThreads() { count_of_threads = 0; }

int virtual_threads() { return count_of_threads.load(std::memory_order_relaxed); }

double makespan(std::span<const double> seconds, int threads) {
  const auto all = static_cast<std::size_t>(threads);
  std::vector<std::size_t> next(all), end(all);
  for (std::size_t i = 0; i < all; ++i) {
    next[i] = seconds.size() * i / all;
    end[i] = seconds.size() * (i + 1) / all;
  }
  using Free = std::pair<double, std::size_t>;  // when a thread is free, and which one
  std::priority_queue<Free, std::vector<Free>, std::greater<>> idle;
  for (std::size_t i = 0; i < all; ++i) idle.emplace(0.0, i);
  double last = 0;
  while (!idle.empty()) {
    auto [at, own] = idle.top();
    idle.pop();
    for (std::size_t i = 0; i < all; ++i) {
      const std::size_t run = (own + i) % all;
      if (next[run] == end[run]) continue;
      const double done = at + seconds[next[run]++];
      last = std::max(last, done);
      idle.emplace(done, own);
      break;
    }
  }
  return last;
}

double virtual_seconds_saved() { return saved; }

void add_virtual_call(const VirtualCall& call, std::span<const double> seconds) {
  const double work = std::accumulate(seconds.begin(), seconds.end(), 0.0),
               less = work - makespan(seconds, virtual_threads());
  saved += less;
  if (enough_seconds == VirtualThreads::kRunAll) return;
  Measured& m = measured[call];
  m.seconds += work;
  m.saved += less;
  ++m.calls;
}

bool repeat_virtual_call(const VirtualCall& call) {
  const auto found = measured.find(call);
  if (found == measured.end() || found->second.seconds < enough_seconds) return false;
  const Measured& m = found->second;
  not_run += m.seconds / m.calls;
  saved += m.saved / m.calls;
  return true;
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double virtual_seconds() { return thread_seconds() + not_run; }

}  // namespace dml
