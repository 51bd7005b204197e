#include "dist/float_work.h"

#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "dist/gradient_tree.h"

namespace dml {
namespace {

constexpr std::int64_t kGrain = 1 << 14;  // floats

thread_local FloatWorkCounter* counter = nullptr;

}  // namespace

FloatWorkCounter::FloatWorkCounter() {
  DML_CHECK(counter == nullptr);
  counter = this;
}

FloatWorkCounter::~FloatWorkCounter() { counter = nullptr; }

void count_work(FloatWork work, std::int64_t floats) {
  if (counter) counter->count(work, floats);
}

void zero_floats(float* to, std::int64_t size) {
  parallel_ranges(size, kGrain, [&](std::int64_t first, std::int64_t last) {
    std::memset(to + first, 0, static_cast<std::size_t>(last - first) * sizeof(float));
  });
  count_work(FloatWork::zero, size);
}

void copy_bytes(void* to, const void* from, std::size_t size) {
  const auto bytes = static_cast<std::int64_t>(size), floats = static_cast<std::int64_t>(size / sizeof(float));
  parallel_ranges(bytes, kGrain * 4, [&](std::int64_t first, std::int64_t last) {
    std::memcpy(static_cast<std::byte*>(to) + first, static_cast<const std::byte*>(from) + first,
                static_cast<std::size_t>(last - first));
  });
  count_work(FloatWork::copy, floats);
}

void add_in_parallel(float* to, const float* from, std::int64_t size) {
  parallel_ranges(size, kGrain,
                  [&](std::int64_t first, std::int64_t last) { add_floats(to + first, from + first, last - first); });
  count_work(FloatWork::add, size);
}

}  // namespace dml
