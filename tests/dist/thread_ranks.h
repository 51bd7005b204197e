// Ranks as threads of one process. Posted sends and receives are matched in a hub; the rank that posts second copies,
// under the hub's lock. If a rank throws, or returns while others wait for its messages, their waits end with an error.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "dist/comm.h"
#include "dist/unfinished.h"

namespace dml {
namespace thread_ranks {

class ThreadPending;

struct Hub {
  struct Post {
    ThreadPending* owner;
    std::byte* data;  // a send's is only read
    std::size_t size;
  };
  using Key = std::tuple<int, int, int>;  // from, to, channel

  explicit Hub(int ranks) : left(static_cast<std::size_t>(ranks)) {}

  /// Records the first failure; later ones are ignored.
  void fail(int rank, std::exception_ptr error, const std::string& text) {
    std::lock_guard lock(mutex);
    if (!failure) {
      failure = std::move(error);
      reason = fmt::format("rank {} failed: {}", rank, text);
    }
    changed.notify_all();
  }
  void leave(int rank) {
    std::lock_guard lock(mutex);
    left[static_cast<std::size_t>(rank)] = true;
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<Key, std::deque<Post>> sends, receives;
  std::vector<bool> left;
  std::exception_ptr failure;
  std::string reason;
};

class ThreadComm : public Comm {
 public:
  ThreadComm(Hub& hub, int rank, int size) : hub_(hub), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return rank_; }
  int local_size() const override { return size_; }
  std::string host() const override { return "this process"; }
  std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                    std::vector<std::span<std::byte>> receive, Operation operation) override;
  void abort(int code) override {
    Error error(static_cast<ExitCode>(code), fmt::format("rank {} ended the job with code {}", rank_, code));
    hub_.fail(rank_, std::make_exception_ptr(error), error.what());
    throw error;
  }

 private:
  Hub& hub_;
  int rank_, size_;
};

class ThreadPending : public Pending {
 public:
  ThreadPending(Hub& hub, const ThreadComm& comm, Operation operation)
      : hub_(hub), comm_(comm), operation_(operation) {}

  ~ThreadPending() override {
    std::lock_guard lock(hub_.mutex);
    if (expected_ == 0) return;
    for (auto* posts : {&hub_.sends, &hub_.receives})
      for (auto& [key, queue] : *posts)
        std::erase_if(queue, [this](const Hub::Post& post) { return post.owner == this; });
  }

  // The hub's lock is held for both. After a failure nothing is copied, since the peer's memory may be gone.
  void post(int peer, std::byte* data, std::size_t size, bool is_send) {
    if (hub_.failure) throw unfinished(comm_, operation_, size, hub_.reason);
    bytes_ += size;
    Hub::Key key =
        is_send ? Hub::Key{comm_.rank(), peer, operation_.channel} : Hub::Key{peer, comm_.rank(), operation_.channel};
    auto& others = (is_send ? hub_.receives : hub_.sends)[key];
    if (others.empty()) {
      (is_send ? hub_.sends : hub_.receives)[key].push_back({this, data, size});
      ++expected_;
      ++expected_of_[peer];
      return;
    }
    Hub::Post other = others.front();
    if (other.size != size)
      throw unfinished(comm_, operation_, size,
                       fmt::format("rank {} is in {} of {} bytes", peer, other.owner->operation_.name, other.size));
    others.pop_front();
    std::memcpy(is_send ? other.data : data, is_send ? data : other.data, size);
    other.owner->met(comm_.rank());
  }
  void met(int peer) {
    --expected_;
    --expected_of_[peer];
  }

  bool test() override {
    std::lock_guard lock(hub_.mutex);
    return ready();
  }

  void wait() override {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(comm_.timeout());
    std::unique_lock lock(hub_.mutex);
    while (!ready())
      if (hub_.changed.wait_until(lock, deadline) == std::cv_status::timeout && !ready())
        throw unfinished(comm_, operation_, bytes_, fmt::format("not complete after {} s", comm_.timeout()));
  }

 private:
  bool ready() const {
    if (expected_ == 0) return true;
    if (hub_.failure) throw unfinished(comm_, operation_, bytes_, hub_.reason);
    for (auto [peer, count] : expected_of_)
      if (count > 0 && hub_.left[static_cast<std::size_t>(peer)])
        throw unfinished(comm_, operation_, bytes_, fmt::format("rank {} has ended", peer));
    return false;
  }

  Hub& hub_;
  const ThreadComm& comm_;
  Operation operation_;
  std::size_t bytes_ = 0;
  int expected_ = 0;                // own posts that are not matched yet
  std::map<int, int> expected_of_;  // the same by peer
};

inline std::unique_ptr<Pending> ThreadComm::exchange(std::vector<std::span<const std::byte>> send,
                                                     std::vector<std::span<std::byte>> receive, Operation operation) {
  DML_CHECK(send.size() == static_cast<std::size_t>(size_) && receive.size() == send.size());
  auto pending = std::make_unique<ThreadPending>(hub_, *this, operation);
  std::unique_lock lock(hub_.mutex);
  try {
    for (int r = 0; r < size_; ++r) {
      auto from = send[static_cast<std::size_t>(r)];
      auto to = receive[static_cast<std::size_t>(r)];
      if (!from.empty()) pending->post(r, const_cast<std::byte*>(from.data()), from.size(), true);
      if (!to.empty()) pending->post(r, to.data(), to.size(), false);
    }
  } catch (...) {
    lock.unlock();  // the destructor of `pending` takes it
    throw;
  }
  hub_.changed.notify_all();
  return pending;
}

}  // namespace thread_ranks

/// Runs body(comm) on `ranks` threads; rethrows the first exception. When one rank throws, waits of the others throw
/// too.
inline void run_thread_ranks(int ranks, const std::function<void(Comm&)>& body) {
  thread_ranks::Hub hub(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      thread_ranks::ThreadComm comm(hub, rank, ranks);
      try {
        body(comm);
      } catch (const std::exception& error) {
        hub.fail(rank, std::current_exception(), error.what());
      } catch (...) {
        hub.fail(rank, std::current_exception(), "unknown exception");
      }
      hub.leave(rank);
    });
  for (auto& thread : threads) thread.join();
  if (hub.failure) std::rethrow_exception(hub.failure);
}

}  // namespace dml
