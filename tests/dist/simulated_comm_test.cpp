#include "dist/simulated_comm.h"

#include <gtest/gtest.h>

#include "core/parallel.h"
#include "dist/counting_comm.h"
#include "dist/reduction.h"
#include "dist/thread_ranks.h"
#include "dist/toy_model.h"

namespace dml {
namespace {

// One large message each way to every other rank.
std::unique_ptr<Pending> exchange(SimulatedComm& comm, std::size_t bytes) {
  static std::vector<std::byte> memory(1 << 20);
  std::vector<std::span<const std::byte>> send(static_cast<std::size_t>(comm.size()), {memory.data(), bytes});
  std::vector<std::span<std::byte>> receive(send.size(), {memory.data(), bytes});
  send[static_cast<std::size_t>(comm.rank())] = {};
  receive[static_cast<std::size_t>(comm.rank())] = {};
  return comm.exchange(std::move(send), std::move(receive), {});
}

TEST(SimulatedComm, ExchangesFollowEachOtherOnTheLinkWhileTheRankComputes) {
  SimulatedComm comm(1, 2, {1e6, 0.5, 1}, {});
  comm.start_clock();
  auto first = exchange(comm, 1000000), second = exchange(comm, 500000);
  EXPECT_NEAR(comm.now(), 0, 0.01);
  EXPECT_FALSE(first->test());
  comm.compute(1.4);
  first->wait();
  EXPECT_NEAR(comm.now(), 1.5, 0.01);  // a second on the link, then the latency
  EXPECT_NEAR(comm.waited(), 0.1, 0.01);
  comm.compute(10);
  EXPECT_TRUE(second->test());
  EXPECT_EQ(comm.sent(), 1500000);
}

TEST(SimulatedComm, RanksOfAHostShareItsLinkAndDoNotUseItAmongThemselves) {
  for (int per_host : {1, 2, 4}) {
    SimulatedComm comm(3, 4, {1e6, 0, per_host}, {});
    comm.start_clock();
    exchange(comm, 100000)->wait();
    EXPECT_NEAR(comm.now(), per_host * (4 - per_host) * 0.1, 0.01) << per_host;
    EXPECT_EQ(comm.sent(), 300000);
  }
}

TEST(SimulatedComm, ChargesTheFloatOperationsOfStrategies) {
  const DryRun dry;
  SimulatedComm comm(0, 2, {}, {.zero = 1, .copy = 2, .add = 3, .pack = 4, .unpack = 5});
  float* nowhere = nullptr;
  zero_floats(nowhere, 10);
  copy_bytes(nowhere, nowhere, 40);
  add_in_parallel(nowhere, nowhere, 10);
  Wire{DType::bf16}.pack(nowhere, 10, nullptr);
  Wire{DType::bf16}.unpack(nowhere, 10);
  EXPECT_DOUBLE_EQ(comm.now(), 150);
}

void step(Comm& comm, DistributionStrategy& strategy, Toy& toy, std::int64_t total) {
  strategy.set_empty_pass([&] { toy.backward(strategy, 0, -1); });
  const MicroBatches mine = strategy.share(total);
  strategy.begin_step(mine, total);
  for (std::int64_t j = 0; j < mine.count; ++j) {
    strategy.begin_micro_step(mine.first + j * mine.stride);
    toy.backward(strategy, 0, comm.size() > 1 ? -1 : j);
  }
  strategy.finish_gradients();
  strategy.squared_gradient_norm();
  strategy.update([](std::span<const Shard>) {});
  strategy.publish();
  strategy.end_step();
}

// The bytes that the last rank sends in a step of the real strategy, compared with the simulated one.
TEST(SimulatedComm, SendsTheSameBytesAsARealRank) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kTotal = 2 * kRanks;
  for (const char* name : {"ddp", "zero1", "zero2", "zero3", "hybrid", "hybrid_zero2"}) {
    const DistributionOptions options{.shard_size = 2};
    std::int64_t sent = 0;
    run_thread_ranks(kRanks, [&](Comm& inner) {
      CountingComm comm(inner);
      Toy toy(false);
      auto strategy = strategies().at(name).make(comm, options);
      strategy->adopt(toy.store, 1);
      comm.sent = 0;
      step(comm, *strategy, toy, kTotal);
      if (comm.rank() == kRanks - 1) sent = comm.sent;
    });
    const DryRun dry;
    SimulatedComm comm(kRanks - 1, kRanks, {}, {});
    Toy toy(false);
    auto strategy = strategies().at(name).make(comm, options);
    strategy->adopt(toy.store, 1);
    comm.set_other_ranks([&](int rank, Operation operation, std::span<std::byte> message) {
      if (operation.channel != Reduction::kSharesChannel) return false;
      const auto group = static_cast<int>(strategy->share(kTotal).stride);
      const MicroBatches range = contiguous_share(kTotal, rank / group, kRanks / group);
      const Reduction::Share share{range.first, range.count, kTotal};
      std::ranges::copy(std::as_bytes(std::span(&share, 1)), message.begin());
      return true;
    });
    comm.start_clock();
    step(comm, *strategy, toy, kTotal);
    EXPECT_GT(sent, 0) << name;
    EXPECT_EQ(comm.sent(), static_cast<double>(sent)) << name;
  }
}

}  // namespace
}  // namespace dml
