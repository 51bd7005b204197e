#include "core/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "core/size_text.h"

namespace dml {
namespace {

// Bytes of address space; larger than any step, and never backed by memory.
constexpr std::size_t kMeasuringSpace = std::size_t{1} << 44;

}  // namespace

Arena::Arena(std::size_t bytes) : capacity_(std::max<std::size_t>(bytes, kAlignment)) {
  // A dry run touches no memory, so it may reserve more than this machine has.
  const int reserve = dry_run() ? MAP_NORESERVE : 0;
  void* p = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | reserve, -1, 0);
  if (p == MAP_FAILED)
    throw Error(ExitCode::memory, fmt::format("cannot reserve {} of working memory", size_text(bytes)));
  madvise(p, capacity_, MADV_HUGEPAGE);
  base_ = static_cast<std::byte*>(p);
}

Arena Arena::measuring() {
  Arena arena;
  void* p = mmap(nullptr, kMeasuringSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // Under an address-space limit the reservation fails; any aligned non-null base serves, since nothing is touched.
  arena.base_ = p == MAP_FAILED ? reinterpret_cast<std::byte*>(kAlignment) : static_cast<std::byte*>(p);
  arena.capacity_ = kMeasuringSpace;
  arena.measuring_ = true;
  if (p != MAP_FAILED) munmap(p, kMeasuringSpace);
  return arena;
}

Arena::~Arena() {
  if (base_ && !measuring_) munmap(base_, capacity_);
}

Arena::Arena(Arena&& other) noexcept { *this = std::move(other); }

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  std::swap(high_water_, other.high_water_);
  std::swap(measuring_, other.measuring_);
  return *this;
}

void* Arena::take_bytes(std::int64_t count, std::size_t size) {
  std::size_t start = (used_ + kAlignment - 1) / kAlignment * kAlignment;
  DML_CHECK(count >= 0, "{} elements", count);
  DML_CHECK(start <= capacity_ && static_cast<std::size_t>(count) <= (capacity_ - start) / size,
            "the step needs more than the {} bytes planned", capacity_);
  std::size_t bytes = static_cast<std::size_t>(count) * size;
  used_ = start + bytes;
  high_water_ = std::max(high_water_, used_);
  return base_ + start;
}

}  // namespace dml
