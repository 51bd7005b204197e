// Ranks as processes under MPI: non-blocking point-to-point messages only, tag = channel.
//
// Progress: MPI transfers large messages only inside its own calls, so a progress thread calls it periodically while
// messages are pending (with polling between layers alone, all of a 100 MB exchange over TCP was left for the final
// wait; with the thread, nothing). On one host there is no latency to hide, and a copying thread competes with the
// model for the processor: there polling between layers is better, and the thread runs rarely. All MPI calls are made
// under one lock (MPI_THREAD_SERIALIZED).
//
// Over TCP, Open MPI is configured not to send large messages in one piece. Both directions share a connection, so the
// clear-to-send of one direction would be queued behind all data of the other, and exchanges would run one direction
// after the other, at half the rate.
//
// The rendezvous protocol of a large message needs progress on both sides before its data flow; with exchanges in close
// succession the link was idle for a fifth of the time. So the last 4 MB of an exchange are sent eagerly, in pieces
// queued after the rendezvous request of the rest: they keep the link busy during the handshake. The limit bounds MPI's
// buffers on a late receiver.
//
// Failures: MPI returns errors (MPI_ERRORS_RETURN); a wait past its deadline throws. mpirun notices a dead rank and
// ends the job.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "core/affinity.h"
#include "core/log.h"
#include "core/profile.h"
#include "dist/comm.h"
#include "dist/started_rank.h"
#include "dist/unfinished.h"

namespace dml {
namespace {

constexpr std::size_t kLargestMessage = std::size_t{1} << 30;  // MPI counts are ints
// Between hosts: the bytes of an exchange that are sent eagerly (without a rendezvous), in pieces just below Open MPI's
// eager limit over TCP (64 KiB with its header). A factor of 31 makes it unlikely that a wrong size ends at the border
// of a piece.
constexpr std::size_t kEagerBytes = std::size_t{4} << 20, kPiece = 62 << 10;
constexpr auto kPokeEvery = std::chrono::milliseconds(2), kPokeLocally = std::chrono::milliseconds(100);
constexpr auto kMoved = std::chrono::microseconds(20);  // a call that takes longer has moved data: call again

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw Error(ExitCode::distributed, fmt::format("{}: {}", call, text_of(code)));
}

/// Calls MPI periodically while messages are under way, so that they progress.
class Progress {
 public:
  Progress(MPI_Comm comm, std::chrono::milliseconds every) : comm_(comm), every_(every), thread_([this] { run(); }) {}
  ~Progress() {
    {
      std::lock_guard lock(sleep_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  /// Held around every MPI call.
  std::mutex& mpi() { return mpi_; }
  void begin() {
    if (under_way_.fetch_add(1) > 0) return;
    std::lock_guard lock(sleep_);
    wake_.notify_all();
  }
  void end() { under_way_.fetch_sub(1); }
  /// Stops progress: the buffers of messages under way are about to be freed.
  void halt() { halted_ = true; }

 private:
  void run() {
    unbind_this_thread();
    std::unique_lock lock(sleep_);
    while (!stopping_) {
      if (under_way_ == 0) {
        wake_.wait(lock, [this] { return stopping_ || under_way_ > 0; });
        continue;
      }
      wake_.wait_for(lock, every_, [this] { return stopping_; });
      lock.unlock();
      while (poke() > kMoved && under_way_ > 0) {
      }
      lock.lock();
    }
  }

  std::chrono::steady_clock::duration poke() {
    std::unique_lock busy(mpi_, std::try_to_lock);
    if (!busy || halted_) return {};  // another thread is in MPI already
    auto start = std::chrono::steady_clock::now();
    int found;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, MPI_STATUS_IGNORE);
    return std::chrono::steady_clock::now() - start;
  }

  MPI_Comm comm_;
  std::chrono::milliseconds every_;
  std::mutex mpi_, sleep_;
  std::condition_variable wake_;
  std::atomic<int> under_way_{0};
  std::atomic<bool> halted_{false};
  bool stopping_ = false;
  std::thread thread_;
};

class MpiPending : public Pending {
 public:
  MpiPending(const Comm& comm, MPI_Comm mpi, Progress& progress, const std::vector<std::span<const std::byte>>& send,
             const std::vector<std::span<std::byte>>& receive, Operation operation)
      : comm_(comm), progress_(progress), operation_(operation) {
    try {
      std::lock_guard lock(progress_.mpi());
      post(mpi, send, receive);
      progress_.begin();
    } catch (...) {
      progress_.halt();  // messages that were posted use memory which the caller gives back
      throw;
    }
  }
  ~MpiPending() override {
    if (done_) return;
    progress_.halt();  // the stack is unwound: the job and its messages end
    std::lock_guard lock(progress_.mpi());
    progress_.end();
  }

  bool test() override {
    if (done_) return true;
    std::lock_guard lock(progress_.mpi());
    statuses_.resize(requests_.size());
    int all = 0;
    int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, statuses_.data());
    if (code != MPI_SUCCESS) fail(code);
    if (!all) return false;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      int count = -1;
      if (parts_[i].expected >= 0) MPI_Get_count(&statuses_[i], MPI_BYTE, &count);
      if (count != parts_[i].expected)
        throw unfinished(comm_, operation_, bytes_,
                         fmt::format("rank {} sent {} bytes, expected {}: the ranks are in different operations",
                                     parts_[i].peer, count, parts_[i].expected));
    }
    done_ = true;
    progress_.end();
    return true;
  }

  void wait() override {
    using clock = std::chrono::steady_clock;
    ProfileScope profiled(operation_.name);
    auto start = clock::now(),
         deadline = start + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(comm_.timeout()));
    // A short spin for latency, then the core is yielded to other threads (ranks may share cores).
    for (long turn = 0; !test(); ++turn) {
      if (turn < 100) continue;
      auto now = clock::now();
      if (now > deadline) {
        throw unfinished(comm_, operation_, bytes_,
                         fmt::format("not complete after {} s; waiting for {}", comm_.timeout(), missing()));
      }
      if (now - start < std::chrono::microseconds(500)) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds(30));
    }
  }

 private:
  void post(MPI_Comm mpi, const std::vector<std::span<const std::byte>>& send,
            const std::vector<std::span<std::byte>>& receive) {
    // Receives are posted first, so that arriving data has a buffer. Beginning with the next rank spreads the load.
    for (int i = 1; i < comm_.size(); ++i) {
      int peer = (comm_.rank() - i + comm_.size()) % comm_.size();
      auto to = receive[static_cast<std::size_t>(peer)];
      in_messages(to.size(), [&](std::size_t at, int count) {
        parts_.push_back({peer, count});
        check(MPI_Irecv(to.data() + at, count, MPI_BYTE, peer, operation_.channel, mpi, &requests_.emplace_back()),
              "MPI_Irecv");
      });
    }
    for (int i = 1; i < comm_.size(); ++i) {
      int peer = (comm_.rank() + i) % comm_.size();
      auto from = send[static_cast<std::size_t>(peer)];
      in_messages(from.size(), [&](std::size_t at, int count) {
        parts_.push_back({peer, -1});
        check(MPI_Isend(from.data() + at, count, MPI_BYTE, peer, operation_.channel, mpi, &requests_.emplace_back()),
              "MPI_Isend");
      });
    }
    for (auto s : send) bytes_ += s.size();
    for (auto r : receive) bytes_ += r.size();
  }

  struct Part {
    int peer, expected;
  };  // bytes to receive; −1 for a send

  /// message(first byte, bytes) for everything that goes from one rank to another, the same on both sides.
  template <class F>
  void in_messages(std::size_t size, F&& message) const {
    const bool between_hosts = comm_.local_size() < comm_.size();
    const std::size_t each = std::max(kPiece, kEagerBytes / static_cast<std::size_t>(std::max(1, comm_.size() - 1))),
                      eager = between_hosts ? std::min(size, each) : 0;
    const auto cut = [&](std::size_t first, std::size_t last, std::size_t most) {
      for (std::size_t at = first; at < last; at += most) message(at, static_cast<int>(std::min(most, last - at)));
    };
    cut(0, size - eager, kLargestMessage);
    cut(size - eager, size, kPiece);
  }

  [[noreturn]] void fail(int code) {
    if (code == MPI_ERR_IN_STATUS)
      for (std::size_t i = 0; i < parts_.size(); ++i)
        if (int error = statuses_[i].MPI_ERROR; error != MPI_SUCCESS && error != MPI_ERR_PENDING)
          throw unfinished(comm_, operation_, bytes_, fmt::format("rank {}: {}", parts_[i].peer, text_of(error)));
    throw unfinished(comm_, operation_, bytes_, text_of(code));
  }
  std::string missing() {
    std::set<int> peers;
    std::lock_guard lock(progress_.mpi());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      int done = 0;
      if (requests_[i] != MPI_REQUEST_NULL) MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
      if (requests_[i] != MPI_REQUEST_NULL && !done) peers.insert(parts_[i].peer);
    }
    return fmt::format("rank {}", fmt::join(peers, ", "));
  }

  const Comm& comm_;
  Progress& progress_;
  Operation operation_;
  std::size_t bytes_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<Part> parts_;
  bool done_ = false;
};

class MpiComm : public Comm {
 public:
  MpiComm() {
    setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0);
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED)
      throw Error(ExitCode::distributed, "this MPI library was built without thread support (MPI_THREAD_SERIALIZED)");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world_, &rank_);
    MPI_Comm_size(world_, &size_);
    MPI_Comm host;
    check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    MPI_Comm_rank(host, &local_rank_);
    MPI_Comm_size(host, &local_size_);
    MPI_Comm_free(&host);
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    MPI_Get_processor_name(name, &length);
    host_.assign(name, static_cast<std::size_t>(length));
    progress_ = std::make_unique<Progress>(world_, local_size_ == size_ ? kPokeLocally : kPokeEvery);
  }
  ~MpiComm() override {
    if (std::uncaught_exceptions() > 0) {
      // MPI_Finalize would deadlock with ranks that wait for this one.
      progress_.reset();
      return;
    }
    try {
      barrier();
    } catch (const Error& error) {
      log_error("{}", error.what());
      abort(static_cast<int>(error.code()));
    } catch (const std::exception& error) {
      log_error("{}", error.what());
      abort(static_cast<int>(ExitCode::internal));
    }
    progress_.reset();
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  std::string host() const override { return host_; }

  std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                    std::vector<std::span<std::byte>> receive, Operation operation) override {
    auto me = static_cast<std::size_t>(rank_);
    DML_CHECK(send.size() == static_cast<std::size_t>(size_) && receive.size() == send.size());
    DML_CHECK(send[me].size() == receive[me].size());
    if (!send[me].empty()) std::copy(send[me].begin(), send[me].end(), receive[me].begin());
    return std::make_unique<MpiPending>(*this, world_, *progress_, send, receive, operation);
  }

  void abort(int code) override {
    std::fflush(nullptr);
    // Without the lock, which a stuck thread may hold.
    MPI_Abort(world_, code);
    std::_Exit(code);
  }

 private:
  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::string host_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace

std::unique_ptr<Comm> make_comm() {
  if (is_started_rank()) {
    auto comm = std::make_unique<MpiComm>();
    if (const int started = started_rank().ranks; comm->size() == 1 && started > 1)
      throw UserError(
          "{} processes were started, but this process sees no other rank. dml uses Open MPI; the processes were "
          "started "
          "by mpiexec of another MPI (MPICH, Intel MPI), or by srun without PMIx. Use mpirun of Open MPI, or srun "
          "--mpi=pmix",
          started);
    return comm;
  }
  refuse_tasks_without_mpi();
  return make_self_comm();
}

}  // namespace dml
