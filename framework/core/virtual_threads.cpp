#include "core/virtual_threads.h"

#include <ctime>

#include <algorithm>
#include <atomic>
#include <compare>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/profile.h"

namespace dml {
namespace {

std::atomic<int> count_of_threads = 0;
thread_local double saved_seconds = 0;
thread_local double ahead = 0;  // virtual_seconds() - thread_seconds()

// Calls of one kind take the same time.
struct Kind {
  ProfiledOperation operation;
  const void* code = nullptr;
  std::int64_t tiles = 0;
  auto operator<=>(const Kind&) const = default;
};

// The time of a call: of all tiles, and what the virtual threads save of it.
struct Times {
  double seconds = 0, saved = 0;

  // Adds this time of `calls` calls to the thread's totals; a negative number subtracts it.
  void add(double calls) const {
    ahead += calls * seconds;
    saved_seconds += calls * saved;
  }
};
Times times_of(std::span<const double> tiles) {
  const double seconds = std::accumulate(tiles.begin(), tiles.end(), 0.0);
  return {seconds, seconds - makespan(tiles, virtual_threads())};
}

// The measured calls of one kind.
struct Measured {
  int calls = 0;
  std::vector<double> tiles;  // the shortest time of each tile
  Times times;                // of a call with these tiles
};
thread_local std::map<Kind, Measured> measured;
thread_local int runs_of_a_kind = VirtualThreads::kRunAll;

std::span<const double> seconds_of_tiles(std::int64_t count, TileFunction tile) {
  thread_local std::vector<double> seconds;
  seconds.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const double start = thread_seconds();
    tile(i);
    seconds[static_cast<std::size_t>(i)] = thread_seconds() - start;
  }
  return seconds;
}

// Adds a measured call, and corrects what the earlier calls of its kind have added.
void add_call(Measured& m, std::span<const double> seconds) {
  m.times.add(-m.calls);
  if (m.calls++ == 0) m.tiles.assign(seconds.begin(), seconds.end());
  for (std::size_t i = 0; i < m.tiles.size(); ++i) m.tiles[i] = std::min(m.tiles[i], seconds[i]);
  m.times = times_of(m.tiles);
  m.times.add(m.calls);
}

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

double virtual_seconds_saved() { return saved_seconds; }

void run_virtually(std::int64_t tiles, TileFunction tile) {
  const double start = thread_seconds();
  if (runs_of_a_kind == VirtualThreads::kRunAll) {
    times_of(seconds_of_tiles(tiles, tile)).add(1);
  } else {
    Measured& m = measured[{innermost_operation(), tile.code(), tiles}];
    if (m.calls < runs_of_a_kind) add_call(m, seconds_of_tiles(tiles, tile));
    else m.times.add(1);
  }
  ahead -= thread_seconds() - start;
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double virtual_seconds() { return thread_seconds() + ahead; }

}  // namespace dml
