// A simulated rank for forecasts: a strategy runs on it unchanged, and its exchanges take time on a virtual clock
// instead of moving data. Used under a DryRun (core/parallel.h).
//
//   clock   compute(model) ──► exchange: processor's share ──► compute … ──► wait() until it has arrived
//   link                       └── bytes ÷ bandwidth, one exchange after another ── + latency ──┘
//
// Assumptions: ranks are identical, are at the same point at any time, and slow each other down no more than on this
// machine. The ranks of a host share its link, which carries one exchange at a time, in both directions at once; the
// network itself is not a bottleneck. A message and a packet between hosts cost some processor time at either end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "dist/float_work.h"

namespace dml {

struct Network {
  double bandwidth = 125e6 * 0.94;  // bytes per second and direction, without headers
  double latency = 100e-6;          // seconds
  int ranks_per_host = 1;
};

/// Processor time of one rank: seconds per float, and per byte sent or received.
struct ExchangeCosts {
  double zero = 0, copy = 0, add = 0, pack = 0, unpack = 0, transfer = 0;
};

class SimulatedComm : public Comm, private FloatWorkCounter {
 public:
  SimulatedComm(int rank, int size, const Network& network, const ExchangeCosts& costs);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return rank_ % network_.ranks_per_host; }
  int local_size() const override { return network_.ranks_per_host; }
  std::string host() const override { return "simulated"; }
  /// Small messages of other ranks are assumed to equal this rank's; the data of large ones is neither read nor
  /// written.
  std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                    std::vector<std::span<std::byte>> receive, Operation operation) override;
  [[noreturn]] void abort(int code) override;

  /// Sets a function that writes the message of `rank` for exchanges in which ranks differ, and returns false for
  /// others.
  using OtherRanks = std::function<bool(int rank, Operation operation, std::span<std::byte> message)>;
  void set_other_ranks(OtherRanks others) { others_ = std::move(others); }

  /// Resets the clock and the counters.
  void start_clock();
  void compute(double seconds) { now_ += seconds, computing_ += seconds; }
  void wait_until(double time) { now_ = now_ < time ? time : now_; }
  double now() const { return now_; }  // seconds
  double waited() const { return now_ - computing_; }
  double sent() const { return sent_; }  // bytes

 private:
  void count(FloatWork work, std::int64_t floats) override;
  void answer(std::span<const std::byte> mine, std::span<std::byte> others, int rank, Operation operation) const;

  int rank_, size_;
  Network network_;
  ExchangeCosts costs_;
  OtherRanks others_;
  double now_ = 0, computing_ = 0, sent_ = 0, link_free_ = 0;
};

}  // namespace dml
