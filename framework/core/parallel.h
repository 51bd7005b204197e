// A thread pool whose results do not depend on the number of threads.
//
// Work is cut into tiles by its shape alone, or (kernels/packed.h) in ways that do not affect the result. Threads only
// decide which thread computes which tile, and every tile writes its own output, so 1 thread and 64 give the same bits.
// A call made while the pool is busy (another rank of the same process, or a nested call) runs on the calling thread:
// slower, with the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>

namespace dml {

/// Number of threads of the process, the caller included. Default: the cores this process may run on.
void set_threads(int count);
int threads();
/// Cores in this process's affinity mask. Two hardware threads of one core count as one: either keeps the core's vector
/// units busy in a matrix product.
int available_cores();
/// Hardware threads in that mask.
int available_processors();

/// A borrowed callable: no allocation, valid during the call only.
class TileFunction {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, TileFunction>>>
  TileFunction(F&& f)  // NOLINT: implicit on purpose, so that lambdas can be passed
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* o, std::int64_t i) { (*static_cast<std::remove_reference_t<F>*>(o))(i); }) {}
  void operator()(std::int64_t i) const { call_(object_, i); }
  /// Tells callables of different types apart, whatever they hold.
  const void* code() const { return reinterpret_cast<const void*>(call_); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

/// Calls tile(i) for every i in [0, count), in any order, on any thread; returns when all are done. Every thread begins
/// with its own equal share of consecutive tiles, the caller with the first. An exception thrown by a tile is thrown
/// again here. Does nothing under a DryRun.
void parallel_for(std::int64_t count, TileFunction tile);

/// Cuts [0, size) into ranges of `grain` and calls range(first, last) for each, in parallel.
template <class F>
void parallel_ranges(std::int64_t size, std::int64_t grain, F&& range) {
  parallel_for((size + grain - 1) / grain, [&](std::int64_t i) {
    std::int64_t first = i * grain, last = first + grain < size ? first + grain : size;
    range(first, last);
  });
}

/// While one is alive on this thread, parallel_for does nothing: every kernel does its work inside one, so a whole
/// training step can be executed to measure its memory without touching any. Kernels that read memory outside
/// parallel_for ask dry_run() first.
///
/// The memory of a call should never shrink as the call grows. Where work is cut into equal parts it can: 600 rows make
/// two chunks of 300, 500 rows one of 500. Such code checks dry_run_bounds() and then takes the memory of the largest
/// part of any call up to this size. A `bound` run is therefore an upper bound for every smaller call; an `exact` one
/// holds for this call alone.
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
