// A thread that writes a checkpoint from copies of the values while training continues. It uses files and its own
// copies only; everything that ranks do together happens between steps (train/saver.h).
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/arena.h"

namespace dml {

/// A unit of work. A long one polls `stop` and returns early when a stop is requested.
using Job = std::function<void(const std::stop_token& stop)>;
using Jobs = std::vector<Job>;

class BackgroundWork {
 public:
  BackgroundWork() = default;
  /// Asks the running job to stop; queued jobs and errors are dropped.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  /// Runs the jobs one after the other, until one throws. Requires that the previous jobs were waited for.
  void start(Jobs jobs);
  bool busy() const { return busy_; }
  /// Waits for all jobs, and rethrows the exception of one that failed.
  void wait();

 private:
  void run(const Jobs& jobs, const std::stop_token& stop);

  std::atomic<bool> busy_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;
};

/// Copies of values in a buffer that is allocated once and reused.
class Snapshot {
 public:
  /// Reserves `bytes` bytes; earlier copies are dropped.
  void begin(std::size_t bytes);
  template <class T>
  std::span<T> copy(std::span<T> values) {
    return {reinterpret_cast<T*>(copy_bytes(std::as_bytes(values)).data()), values.size()};
  }
  /// The bytes of the buffer that a copy of `bytes` bytes occupies, with alignment.
  static std::size_t bytes(std::size_t bytes) {
    return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
  }

 private:
  std::span<std::byte> copy_bytes(std::span<const std::byte> values);

  Arena memory_;
  std::optional<Arena::Scope> taken_;
};

}  // namespace dml
