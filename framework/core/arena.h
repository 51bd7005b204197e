// A bump allocator over one block of memory for a whole training step: nothing is allocated inside a step.
//
// Arena::measuring() gives an arena without memory, whose addresses are never touched and which only counts bytes. A
// step that runs over it with kernels switched off (DryRun in core/parallel.h) gives the exact memory plan of that
// step.
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
  /// An arena that only counts bytes. Its addresses must not be read or written.
  static Arena measuring();
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `count` uninitialized elements, aligned to kAlignment. More than the capacity is an internal error (DML_CHECK).
  template <class T>
  std::span<T> take(std::int64_t count) {
    return {static_cast<T*>(take_bytes(count, sizeof(T))), static_cast<std::size_t>(count)};
  }
  /// A dense float32 matrix, uninitialized.
  Mat matrix(std::int64_t rows, std::int64_t cols) { return {take<float>(rows * cols).data(), rows, cols}; }

  // In bytes.
  std::size_t used() const { return used_; }
  std::size_t high_water() const { return high_water_; }
  std::size_t capacity() const { return capacity_; }

  /// Releases, when it is destroyed, everything that was taken during its lifetime.
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
