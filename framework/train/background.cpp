#include "train/background.h"

#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "core/affinity.h"
#include "core/error.h"
#include "core/parallel.h"

namespace dml {

BackgroundWork::~BackgroundWork() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void BackgroundWork::start(Jobs jobs) {
  DML_CHECK(!thread_.joinable());
  busy_ = true;
  auto shared = std::make_shared<const Jobs>(std::move(jobs));
  try {
    thread_ = std::jthread([this, shared](const std::stop_token& stop) {
      unbind_this_thread();
      run(*shared, stop);
    });
  } catch (const std::system_error&) {  // no thread available: runs in the calling thread
    run(*shared, {});
  }
}

void BackgroundWork::run(const Jobs& jobs, const std::stop_token& stop) {
  try {
    for (auto& job : jobs)
      if (!stop.stop_requested()) job(stop);
  } catch (...) {
    failure_ = std::current_exception();
  }
  busy_ = false;
}

void BackgroundWork::wait() {
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Snapshot::begin(std::size_t bytes) {
  taken_.reset();
  if (memory_.capacity() < bytes) memory_ = Arena(bytes);
  taken_.emplace(memory_);
}

std::span<std::byte> Snapshot::copy_bytes(std::span<const std::byte> values) {
  constexpr std::int64_t kGrain = 1 << 18;
  auto size = static_cast<std::int64_t>(values.size());
  std::span<std::byte> to = memory_.take<std::byte>(size);
  parallel_ranges(size, kGrain, [&](std::int64_t first, std::int64_t last) {
    std::memcpy(to.data() + first, values.data() + first, static_cast<std::size_t>(last - first));
  });
  return to;
}

}  // namespace dml
