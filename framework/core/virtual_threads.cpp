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

// The measured calls of one kind.
struct Measured {
  int calls = 0;
  std::vector<double> tiles;  // the shortest time of each tile
  double seconds = 0, saved = 0;
};
thread_local std::map<VirtualCall, Measured> measured;
thread_local int runs_of_a_kind = VirtualThreads::kRunAll;

}  // namespace

VirtualThreads::VirtualThreads(int count, int runs) {
  DML_CHECK(count >= 1);
  DML_CHECK(count_of_threads.exchange(count) == 0);
  measured.clear();
  runs_of_a_kind = runs;
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
  using Free = std::pair<double, std::size_t>;  // when a thread becomes free, and its index
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
  auto work = [](std::span<const double> tiles) { return std::accumulate(tiles.begin(), tiles.end(), 0.0); };
  saved += work(seconds) - makespan(seconds, virtual_threads());
  if (runs_of_a_kind == VirtualThreads::kRunAll) return;
  Measured& m = measured[call];
  if (m.calls++ == 0) m.tiles.assign(seconds.begin(), seconds.end());
  for (std::size_t i = 0; i < m.tiles.size(); ++i) m.tiles[i] = std::min(m.tiles[i], seconds[i]);
  m.seconds = work(m.tiles);
  m.saved = m.seconds - makespan(m.tiles, virtual_threads());
}

bool repeat_virtual_call(const VirtualCall& call) {
  const auto found = measured.find(call);
  if (found == measured.end() || found->second.calls < runs_of_a_kind) return false;
  not_run += found->second.seconds;
  saved += found->second.saved;
  return true;
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double virtual_seconds() { return thread_seconds() + not_run; }

}  // namespace dml
