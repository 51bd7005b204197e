// One block of memory for a whole training step, handed out by moving a pointer: nothing is allocated inside a step.
//
// An arena without memory (`Arena::measuring()`) hands out addresses that are never touched and only counts; running a
// step over it with kernels switched off (see core/parallel.h, DryRun) gives the exact memory plan of that step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/matrix.h"

namespace dml {

class Arena {
 public:
  static constexpr std::size_t kAlignment = 64;

  Arena() = default;
  /// Reserves `bytes` (anonymous mmap, huge pages advised, pages appear on first touch). Throws Error(memory).
  explicit Arena(std::size_t bytes);
  /// An arena that only counts. Its addresses must not be read or written.
  static Arena measuring();
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  template <class T>
  std::span<T> take(std::int64_t count) {
    return {static_cast<T*>(take_bytes(count, sizeof(T))), static_cast<std::size_t>(count)};
  }
  Mat matrix(std::int64_t rows, std::int64_t cols) { return {take<float>(rows * cols).data(), rows, cols}; }

  std::size_t used() const { return used_; }
  std::size_t high_water() const { return high_water_; }
  std::size_t capacity() const { return capacity_; }
  bool is_measuring() const { return measuring_; }

  /// At the end of the block, releases everything that was taken inside it.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() { arena_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::size_t mark_;
  };

 private:
  void* take_bytes(std::int64_t count, std::size_t size);

  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0, used_ = 0, high_water_ = 0;
  bool measuring_ = false;
};

}  // namespace dml
