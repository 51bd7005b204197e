#include "dist/simulated_comm.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"

namespace dml {
namespace {

constexpr double kMessage = 3e-6;  // seconds of the processor for one message, sent or received
// Seconds of system time per packet at either end: segmentation, queueing, acknowledgement. Less with network cards
// that do this in hardware.
constexpr double kPacket = 1.2e-6, kPacketBytes = 1448;
constexpr std::size_t kControlBytes = 4096;  // smaller messages are control messages, whose contents are simulated

class Arrival : public Pending {
 public:
  Arrival(SimulatedComm& comm, double time) : comm_(comm), time_(time) {}
  void wait() override { comm_.wait_until(time_); }
  bool test() override { return comm_.now() >= time_; }

 private:
  SimulatedComm& comm_;
  double time_;
};

}  // namespace

SimulatedComm::SimulatedComm(int rank, int size, const Network& network, const ExchangeCosts& costs)
    : rank_(rank), size_(size), network_(network), costs_(costs) {
  DML_CHECK(rank >= 0 && rank < size);
  network_.ranks_per_host = std::min(network_.ranks_per_host, size);
}

void SimulatedComm::start_clock() { now_ = computing_ = sent_ = link_free_ = 0; }

void SimulatedComm::answer(std::span<const std::byte> mine, std::span<std::byte> others, int rank,
                           Operation operation) const {
  if (others.empty() || others.size() > kControlBytes || (others_ && others_(rank, operation, others))) return;
  if (mine.size() == others.size()) std::ranges::copy(mine, others.begin());
}

std::unique_ptr<Pending> SimulatedComm::exchange(std::vector<std::span<const std::byte>> send,
                                                 std::vector<std::span<std::byte>> receive, Operation operation) {
  const int host = rank_ / network_.ranks_per_host;
  double out = 0, in = 0, out_of_host = 0, into_host = 0, messages = 0;
  for (int r = 0; r < size_; ++r) {
    const auto from = send[static_cast<std::size_t>(r)];
    const auto to = receive[static_cast<std::size_t>(r)];
    if (r == rank_) continue;
    answer(from, to, r, operation);
    messages += (from.empty() ? 0 : 1) + (to.empty() ? 0 : 1);
    out += static_cast<double>(from.size());
    in += static_cast<double>(to.size());
    if (r / network_.ranks_per_host == host) continue;
    out_of_host += static_cast<double>(from.size());
    into_host += static_cast<double>(to.size());
  }
  if (const auto me = static_cast<std::size_t>(rank_);
      send[me].size() == receive[me].size() && send[me].size() <= kControlBytes)
    std::ranges::copy(send[me], receive[me].begin());
  sent_ += out;
  compute((out + in) * costs_.transfer + messages * kMessage + (out_of_host + into_host) / kPacketBytes * kPacket);
  const double carried = network_.ranks_per_host * std::max(out_of_host, into_host);
  if (carried == 0) return std::make_unique<Arrival>(*this, now_);
  link_free_ = std::max(link_free_, now_) + carried / network_.bandwidth;
  return std::make_unique<Arrival>(*this, link_free_ + network_.latency);
}

void SimulatedComm::abort(int code) { std::_Exit(code); }

void SimulatedComm::count(FloatWork work, std::int64_t floats) {
  const double costs[] = {costs_.zero, costs_.copy, costs_.add, costs_.pack, costs_.unpack};
  compute(static_cast<double>(floats) * costs[static_cast<std::size_t>(work)]);
}

}  // namespace dml
