// Work beside the training: a thread that writes a checkpoint from copies while steps run. It touches files and what it
// was given, nothing else; what ranks have to do together is done between steps (train/saver.h).
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

/// Long jobs check whether they were cancelled.
using Job = std::function<void(const std::stop_token& stop)>;
using Jobs = std::vector<Job>;

class BackgroundWork {
 public:
  BackgroundWork() = default;
  /// Asks the running job to stop; queued jobs and errors are dropped.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  /// Runs the jobs one after the other, until one throws. The jobs before have been waited for.
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

/// Copies of values, in memory that is taken once and used again.
class Snapshot {
 public:
  /// Reserves `bytes` bytes; earlier copies are dropped.
  void begin(std::size_t bytes);
  template <class T>
  std::span<T> copy(std::span<T> values) {
    return {reinterpret_cast<T*>(copy_bytes(std::as_bytes(values)).data()), values.size()};
  }
  /// Bytes that a copy takes of so many.
  static std::size_t bytes(std::size_t bytes) {
    return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
  }

 private:
  std::span<std::byte> copy_bytes(std::span<const std::byte> values);

  Arena memory_;
  std::optional<Arena::Scope> taken_;
};

}  // namespace dml
