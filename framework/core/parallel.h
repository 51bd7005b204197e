// A thread pool, used so that results do not depend on the number of threads.
//
// Work is split into tiles by its shape alone, or (kernels/packed.h) in ways that do not affect the result. Every tile
// writes its own output, so any number of threads gives the same bits. A call made while the pool is busy (by another
// rank of the same process, or a nested call) runs on the calling thread: slower, with the same bits.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

namespace dml {

/// The processors that each thread of the pool may run on; the first are those of the thread that calls set_threads().
/// Empty: no thread is bound. Threads keep to their rows, so with bound threads pages stay in the NUMA node of the
/// thread that uses them, since Linux places a page where it is first touched.
using ThreadProcessors = std::vector<std::vector<int>>;

/// The number of threads of the process, including the caller. Default: available_cores() (core/affinity.h).
void set_threads(int count, ThreadProcessors where = {});
int threads();

/// A reference to a callable, valid during the call only; it allocates nothing.
class TileFunction {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, TileFunction>>>
  TileFunction(F&& f)  // NOLINT: implicit on purpose, so that lambdas can be passed
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* o, std::int64_t i) { (*static_cast<std::remove_reference_t<F>*>(o))(i); }) {}
  void operator()(std::int64_t i) const { call_(object_, i); }
  /// Identifies the type of the callable.
  const void* code() const { return reinterpret_cast<const void*>(call_); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

/// Calls tile(i) for every i in [0, count), in any order, on any thread; returns when all are done. Every thread begins
/// with an equal share of consecutive tiles, the caller with the first. Rethrows an exception of a tile. Does nothing
/// during a DryRun.
void parallel_for(std::int64_t count, TileFunction tile);

/// Splits [0, size) into ranges of `grain` (the last may be shorter) and calls range(first, last) for each, in
/// parallel.
template <class F>
void parallel_ranges(std::int64_t size, std::int64_t grain, F&& range) {
  parallel_for((size + grain - 1) / grain, [&](std::int64_t i) {
    std::int64_t first = i * grain, last = first + grain < size ? first + grain : size;
    range(first, last);
  });
}

/// While a DryRun exists on this thread, parallel_for does nothing. Kernels do all their work inside parallel_for, so a
/// whole training step can run to measure its memory without touching any. Kernels that read memory outside of
/// parallel_for check dry_run() first.
///
/// A larger call can need less memory than a smaller one if work is split into equal parts: 600 rows make two chunks of
/// 300, 500 rows one of 500. Such code checks dry_run_bounds() and then takes the memory of the largest part of any
/// call up to this size. So the result of a `bound` run is an upper bound for all smaller calls; that of an `exact` run
/// holds for this call only.
class DryRun {
 public:
  enum class Sizes { bound, exact };
  explicit DryRun(Sizes sizes = Sizes::bound);
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

 private:
  Sizes outer_;
};
bool dry_run();
bool dry_run_bounds();

}  // namespace dml
