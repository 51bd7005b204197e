// Collectives between ranks. Three implementations: SelfComm (one rank), MpiComm (mpirun, srun), ThreadComm (N ranks as
// threads of one process: tests, also under sanitizers).
//
// Sums of floats are never left to the library: ranks exchange raw bytes, and whoever owns a slice adds the parts up in the
// order of the reduction tree (dist/gradient_tree.h), so the bits do not depend on the number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dml {

/// A collective under way. wait() returns when its buffers may be used again.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
  /// Moves the transfer along without blocking; true when done.
  virtual bool test() = 0;
};

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks on this rank's host, and this rank's number among them.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  virtual std::string host() const = 0;

  /// Every rank sends send[r] to rank r and receives into receive[r]; sizes agree pairwise. Non-blocking. The lists are
  /// copied; the memory they name must live until wait(). Counts beyond 2^31 are split.
  virtual std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                            std::vector<std::span<std::byte>> receive) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;

  // Built on exchange(); the same for every implementation.

  /// parts[r] comes from rank r; this rank's own is parts[rank()].
  std::vector<std::string> all_gather(const std::string& mine);
  /// Sum over ranks in rank order.
  double sum(double mine);
  std::int64_t sum(std::int64_t mine);
  std::int64_t max(std::int64_t mine);
  std::string broadcast_text(const std::string& text, int root);

  /// Ends every rank of the job with this code.
  [[noreturn]] virtual void abort(int code) = 0;
};

/// One rank.
std::unique_ptr<Comm> make_self_comm();
/// MPI when started by mpirun or srun (seen in the environment), else one rank without touching MPI.
std::unique_ptr<Comm> make_comm();
/// Runs body(comm) on `ranks` threads; rethrows the first exception.
void run_thread_ranks(int ranks, const std::function<void(Comm&)>& body);

}  // namespace dml
