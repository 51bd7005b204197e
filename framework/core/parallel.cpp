#include "core/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/affinity.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/profile.h"
#include "core/virtual_threads.h"

namespace dml {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until ready(); returns false after a time that is longer than the waits between operations of a step. A virtual
// core that halts returns to the host, which may resume it as the second hardware thread of a physical core that this
// process already uses; both then run at half speed for seconds (bench/LOG.md). Yielding makes spinning cheap if there
// are more threads than cores.
template <class F>
bool wait_awake(F&& ready) {
  constexpr int kSpins = 2000;
  constexpr std::chrono::milliseconds kAwake{20};
  for (int spin = 0; spin < kSpins; ++spin) {
    if (ready()) return true;
    relax();
  }
  for (auto until = Clock::now() + kAwake; Clock::now() < until; sched_yield())
    if (ready()) return true;
  return false;
}

// Workers are parked if no call comes for a while; awake ones take no lock, since all of them would take it in turn.
// Every thread begins with its own range of a call's tiles, the caller with the first, and then helps the next threads.
// So a thread gets the same rows in consecutive operations and finds them in its own caches (bench/LOG.md).
class Pool {
 public:
  Pool(int workers, const ThreadProcessors& where) : runs_(static_cast<std::size_t>(workers) + 1) {
    for (std::size_t own = 1; own < runs_.size(); ++own)
      threads_.emplace_back([this, own, mine = where.empty() ? std::vector<int>() : where[own]] {
        if (mine.empty()) unbind_this_thread();
        else bind_this_thread(mine);
        work(own);
      });
  }
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (auto& t : threads_) t.join();
  }

  int workers() const { return static_cast<int>(threads_.size()); }

  // Returns false if another call is using the pool; the caller then runs all tiles.
  bool run(std::int64_t count, TileFunction tile) {
    std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy) return false;
    {
      std::lock_guard lock(mutex_);
      tile_ = &tile;
      const auto all = std::ssize(runs_);
      for (std::int64_t i = 0; i < all; ++i) {
        runs_[i].next.store(count * i / all, std::memory_order_relaxed);
        runs_[i].end = count * (i + 1) / all;
      }
      failure_ = nullptr;
      active_ = workers();
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    work_on_call(0);
    if (!wait_awake([this] { return active_.load(std::memory_order_acquire) == 0; })) {
      std::unique_lock lock(mutex_);
      parked_ = true;
      done_.wait(lock, [this] { return active_ == 0; });
      parked_ = false;
    }
    tile_ = nullptr;
    if (profiling)
      for (const Run& run : runs_) count_busy_seconds(run.busy);
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  struct alignas(64) Run {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
    double busy = 0;  // seconds of this thread in the tiles of the last call; only while profiling
  };

  void work_on_call(std::size_t own) {
    if (!profiling) return drain(own);
    const Clock::time_point start = Clock::now();
    drain(own);
    runs_[own].busy = seconds_since(start);
  }

  void drain(std::size_t own) {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      Run& run = runs_[(own + i) % runs_.size()];
      while (run.next.load(std::memory_order_relaxed) < run.end) {
        const std::int64_t tile = run.next.fetch_add(1, std::memory_order_relaxed);
        if (tile >= run.end) break;
        try {
          (*tile_)(tile);
        } catch (...) {
          std::lock_guard lock(mutex_);
          if (!failure_) failure_ = std::current_exception();
        }
      }
    }
  }

  void work(std::size_t own) {
    std::uint64_t seen = 0;
    auto called = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    while (true) {
      if (!wait_awake(called)) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, called);
      }
      // A call waits for all workers, so that the generation cannot have moved on by two.
      ++seen;
      if (stopping_) return;
      work_on_call(own);
      // The caller parks itself before it looks at active_ for the last time, so one of the two sees the other.
      if (--active_ == 0 && parked_) {
        std::lock_guard lock(mutex_);
        done_.notify_one();
      }
    }
  }

  std::vector<std::thread> threads_;
  std::mutex busy_, mutex_;
  std::condition_variable wake_, done_;
  TileFunction* tile_ = nullptr;
  std::vector<Run> runs_;
  std::atomic<int> active_{0};        // workers that have not finished the call
  std::atomic<bool> parked_ = false;  // the caller
  std::atomic<std::uint64_t> generation_{0};
  std::exception_ptr failure_;
  bool stopping_ = false;
};

std::mutex pool_mutex;
std::shared_ptr<Pool> pool;
int wanted = 0;
ThreadProcessors thread_processors;  // of each of `wanted` threads; empty: not bound
thread_local bool inside = false;
thread_local int dry_depth = 0;
thread_local DryRun::Sizes dry_sizes = DryRun::Sizes::bound;

// To be called with the lock held.
int wanted_threads() {
  if (wanted == 0) wanted = available_cores();
  return wanted;
}

std::shared_ptr<Pool> current_pool() {
  std::lock_guard lock(pool_mutex);
  if (!pool) pool = std::make_shared<Pool>(wanted_threads() - 1, thread_processors);
  return pool;
}

// Marks this thread as inside a call; nested calls run on this thread only.
struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

}  // namespace

void set_threads(int count, ThreadProcessors where) {
  DML_CHECK(where.empty() || std::ssize(where) == count, "{} threads, processors of {}", count, where.size());
  std::lock_guard lock(pool_mutex);
  wanted = std::max(1, count);
  pool.reset();
  unbind_this_thread();
  if (!where.empty()) bind_this_thread(where[0]);
  thread_processors = std::move(where);
}

int threads() {
  if (int count = virtual_threads()) return count;
  std::lock_guard lock(pool_mutex);
  return wanted_threads();
}

void parallel_for(std::int64_t count, TileFunction tile) {
  if (count <= 0 || dry_depth > 0) return;
  if (count > 1 && !inside) {
    if (virtual_threads() > 0) {
      Inside call;
      return run_virtually(count, tile);
    }
    auto shared = current_pool();
    Inside call;
    if (shared->workers() > 0 && shared->run(count, tile)) return;
  }
  const Clock::time_point start = profiling ? Clock::now() : Clock::time_point();
  for (std::int64_t i = 0; i < count; ++i) tile(i);
  if (profiling && !inside) count_busy_seconds(seconds_since(start));
}

DryRun::DryRun(Sizes sizes) : outer_(std::exchange(dry_sizes, sizes)) { ++dry_depth; }
DryRun::~DryRun() {
  --dry_depth;
  dry_sizes = outer_;
}
bool dry_run() { return dry_depth > 0; }
bool dry_run_bounds() { return dry_run() && dry_sizes == DryRun::Sizes::bound; }

}  // namespace dml
