// Multithreaded operations of the strategies on float arrays: zero, copy, add, and rounding for messages. Under a
// DryRun they are counted instead of computed, so that a forecast knows their cost (dist/simulated_comm.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace dml {

enum class FloatWork { zero, copy, add, pack, unpack };

/// Counts this thread's work during its lifetime; at most one per thread.
class FloatWorkCounter {
 public:
  FloatWorkCounter();
  virtual ~FloatWorkCounter();
  FloatWorkCounter(const FloatWorkCounter&) = delete;
  FloatWorkCounter& operator=(const FloatWorkCounter&) = delete;
  virtual void count(FloatWork work, std::int64_t floats) = 0;
};

/// Adds work to this thread's counter, if there is one.
void count_work(FloatWork work, std::int64_t floats);

void zero_floats(float* to, std::int64_t size);
/// Copies `size` bytes; the ranges must not overlap.
void copy_bytes(void* to, const void* from, std::size_t size);
/// to[i] += from[i]; `size` is a multiple of 16.
void add_in_parallel(float* to, const float* from, std::int64_t size);

}  // namespace dml
