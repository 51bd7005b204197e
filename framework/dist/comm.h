// Collectives between ranks. A Comm implements exchange(): SelfComm (one rank), MpiComm (mpirun, srun), GroupComm (some
// of another's ranks), SimulatedComm (the forecast), and in tests ranks as threads (tests/dist/thread_ranks.h).
// Everything else is built on it.
//
// Float sums are not computed by a library: ranks exchange raw bytes, and the owner of a shard adds them in the order
// of the reduction tree (dist/gradient_tree.h), so the bits do not depend on the number of ranks.
//
// Waits are bounded: after the timeout, or as soon as another rank is known to have failed, wait() throws
// Error(distributed) with the rank, the operation, its bytes and the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dml {

/// An asynchronous collective. Its buffers must stay alive and unused until wait() returns.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
  /// Progresses the transfer without blocking; true when it is complete.
  virtual bool test() = 0;
};

/// The purpose of an exchange. Exchanges of one channel match each other in the order they were started; those of
/// different channels may be started in any order.
struct Operation {
  const char* name = "exchange";  // a literal, for error messages
  int channel = 0;                // 0 … 32767
};

class Comm {
 public:
  Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// This rank's number among the ranks of its host, and their number.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  virtual std::string host() const = 0;

  /// Sends send[r] to rank r and receives receive[r] from rank r, for all r. Both lists have size() entries, sizes
  /// match pairwise, and nothing is sent for an empty entry. Non-blocking. The lists are copied; the memory that they
  /// refer to must stay alive until wait(). Counts beyond 2^31 are split.
  virtual std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                            std::vector<std::span<std::byte>> receive, Operation operation = {}) = 0;

  /// Sends root's `data` to all ranks by a binomial tree: log2(size) times the bytes on the busiest rank.
  void broadcast(std::span<std::byte> data, int root);
  void barrier();
  /// Gathers one string per rank; entry r comes from rank r.
  std::vector<std::string> all_gather(const std::string& mine);
  /// Sum over ranks in rank order.
  double sum(double mine);
  /// The same for each of several values, of which every rank has as many.
  void sum(std::span<double> values);
  std::int64_t sum(std::int64_t mine);
  std::int64_t max(std::int64_t mine);
  /// Whether it is true on some rank.
  bool any(bool mine) { return max(mine ? 1 : 0) > 0; }
  std::string broadcast_text(const std::string& text, int root);

  /// The timeout of a wait in seconds; the recipe's dist_timeout.
  void set_timeout(double seconds) { timeout_ = seconds; }
  double timeout() const { return timeout_; }
  /// The current optimizer step, for error messages; −1: not training.
  void set_step(std::int64_t step) { step_ = step; }
  std::int64_t step() const { return step_; }

  /// Terminates all ranks of the job with this exit code.
  [[noreturn]] virtual void abort(int code) = 0;

 private:
  double timeout_ = 600;
  std::int64_t step_ = -1;
};

/// A Comm of a single rank.
std::unique_ptr<Comm> make_self_comm();
/// MPI for a started rank (dist/started_rank.h), else one rank without MPI, since initializing MPI
/// for one process takes 0.4 s. Make one per process. The destructor finalizes MPI, except during stack unwinding: the
/// process must then end with a non-zero code, by abort() or exit, which terminates the other ranks.
std::unique_ptr<Comm> make_comm();

}  // namespace dml
