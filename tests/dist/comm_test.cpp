#include "dist/comm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "dist/agreement.h"
#include "dist/thread_ranks.h"

namespace dml {
namespace {

std::vector<std::span<const std::byte>> to_all(Comm& comm, const std::vector<int>& x) {
  return std::vector<std::span<const std::byte>>(static_cast<std::size_t>(comm.size()), std::as_bytes(std::span(x)));
}

TEST(ThreadComm, CollectivesAgreeOnAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 5, 8})
    run_thread_ranks(ranks, [&](Comm& comm) {
      ASSERT_EQ(comm.size(), ranks);
      std::vector<std::string> texts = comm.all_gather(std::string(static_cast<std::size_t>(comm.rank()), 'x'));
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)].size(), static_cast<std::size_t>(r));
      EXPECT_EQ(comm.sum(std::int64_t{comm.rank() + 1}), ranks * (ranks + 1) / 2);
      EXPECT_EQ(comm.max(comm.rank() == ranks / 2 ? 99 : -5), 99);
      for (int root = 0; root < ranks; ++root)
        EXPECT_EQ(comm.broadcast_text(comm.rank() == root ? "from the root" : "", root), "from the root");
      comm.barrier();
    });
}

TEST(ThreadComm, SumsOfDoublesAreInRankOrder) {
  std::vector<double> parts{1e16, 1, -1e16, 1};
  run_thread_ranks(4, [&](Comm& comm) {
    double expected = ((parts[0] + parts[1]) + parts[2]) + parts[3];
    EXPECT_EQ(comm.sum(parts[static_cast<std::size_t>(comm.rank())]), expected);
  });
}

TEST(ThreadComm, ListsOfDoublesAreSummedLikeEachOfTheirValues) {
  const std::vector<double> parts{1e16, 1, -1e16, 1};
  run_thread_ranks(4, [&](Comm& comm) {
    const double mine = parts[static_cast<std::size_t>(comm.rank())];
    std::vector<double> values{mine, 0.1 * mine, static_cast<double>(comm.rank())}, none;
    comm.sum(values);
    comm.sum(none);
    EXPECT_EQ(values, (std::vector<double>{comm.sum(mine), comm.sum(0.1 * mine), 6}));
  });
}

TEST(ThreadComm, ExchangesOfDifferentChannelsMayStartInAnyOrder) {
  run_thread_ranks(3, [](Comm& comm) {
    std::vector<int> first(4, comm.rank()), second(4, 10 + comm.rank());
    std::vector<std::vector<int>> got_first(3, std::vector<int>(4)), got_second = got_first;
    auto start = [&](std::vector<int>& mine, std::vector<std::vector<int>>& got, int channel) {
      std::vector<std::span<std::byte>> receive;
      for (auto& g : got) receive.push_back(std::as_writable_bytes(std::span(g)));
      return comm.exchange(to_all(comm, mine), receive, {"test", channel});
    };
    std::unique_ptr<Pending> a, b;
    if (comm.rank() == 1) {
      b = start(second, got_second, 8);
      a = start(first, got_first, 7);
    } else {
      a = start(first, got_first, 7);
      b = start(second, got_second, 8);
    }
    b->wait();
    a->wait();
    EXPECT_TRUE(a->test());
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(got_first[static_cast<std::size_t>(r)][0], r);
      EXPECT_EQ(got_second[static_cast<std::size_t>(r)][3], 10 + r);
    }
  });
}

// Runs ranks of which one misbehaves; returns the errors of the others.
std::vector<std::string> told(int ranks, const std::function<void(Comm&)>& body) {
  std::mutex mutex;
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  try {
    run_thread_ranks(ranks, [&](Comm& comm) {
      try {
        body(comm);
      } catch (const Error& error) {
        std::lock_guard lock(mutex);
        texts[static_cast<std::size_t>(comm.rank())] = error.what();
        throw;
      }
    });
  } catch (const Error&) {
  }
  return texts;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ThreadComm, ARankThatThrowsEndsAllWaitsAndItsErrorIsRethrown) {
  EXPECT_THROW(run_thread_ranks(4,
                                [](Comm& comm) {
                                  if (comm.rank() == 2) throw UserError("no such file");
                                  comm.barrier();
                                }),
               UserError);
  auto texts = told(4, [](Comm& comm) {
    comm.set_step(17);
    if (comm.rank() == 2) throw UserError("no such file");
    comm.barrier();
  });
  for (std::size_t r : {0u, 1u, 3u}) {
    EXPECT_TRUE(has(texts[r], "rank 2 ")) << texts[r];
    EXPECT_TRUE(has(texts[r], "barrier")) << texts[r];
    EXPECT_TRUE(has(texts[r], "step 17")) << texts[r];
  }
}

TEST(ThreadComm, AbortEndsAllRanksWithItsCode) {
  try {
    run_thread_ranks(3, [](Comm& comm) {
      if (comm.rank() == 1) comm.abort(4);
      comm.barrier();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::diverged);
  }
}

TEST(ThreadComm, ARankThatReturnsEarlyIsAnError) {
  auto texts = told(2, [](Comm& comm) {
    if (comm.rank() == 0) comm.barrier();
  });
  EXPECT_TRUE(has(texts[0], "rank 1 has ended")) << texts[0];
}

TEST(ThreadComm, AWaitEndsAtItsDeadline) {
  std::atomic<bool> late = false;
  auto texts = told(2, [&](Comm& comm) {
    comm.set_timeout(0.05);
    if (comm.rank() == 0) {
      try {
        comm.barrier();
      } catch (...) {
        late = true;
        throw;
      }
    }
    while (!late) std::this_thread::yield();
  });
  EXPECT_TRUE(has(texts[0], "not complete after 0.05 s")) << texts[0];
}

TEST(ThreadComm, DifferentSizesAreNamedOnBothSides) {
  auto texts = told(2, [](Comm& comm) {
    std::vector<std::byte> mine(comm.rank() == 0 ? 8 : 4), other(mine.size());
    std::vector<std::span<const std::byte>> send(2);
    std::vector<std::span<std::byte>> receive(2);
    send[static_cast<std::size_t>(1 - comm.rank())] = mine;
    receive[static_cast<std::size_t>(1 - comm.rank())] = other;
    comm.exchange(send, receive, {"exchange of gradients"})->wait();
  });
  EXPECT_TRUE(has(texts[0] + texts[1], "is in exchange of gradients of 4 bytes") ||
              has(texts[0] + texts[1], "is in exchange of gradients of 8 bytes"))
      << texts[0] << texts[1];
}

TEST(SelfComm, WorksAlone) {
  auto comm = make_self_comm();
  EXPECT_EQ(comm->size(), 1);
  EXPECT_EQ(comm->all_gather("me"), std::vector<std::string>{"me"});
  EXPECT_EQ(comm->sum(2.5), 2.5);
  comm->barrier();
}

TEST(Agreement, PassesForEqualItems) {
  run_thread_ranks(3, [](Comm& comm) { check_agreement(comm, {{"recipe", "a1"}, {"threads", "2"}}); });
}

TEST(Agreement, ShowsATableOfWhatDiffersOnEveryRank) {
  auto texts = told(3, [](Comm& comm) {
    check_agreement(comm, {{"recipe", "same"}, {"data", comm.rank() == 2 ? "beef" : "f00d"}, {"seed", "1"}});
  });
  for (auto& text : texts) {
    EXPECT_TRUE(has(text, "disagree on data:")) << text;
    EXPECT_TRUE(has(text, "beef")) << text;
    EXPECT_FALSE(has(text, "recipe")) << text;
  }
}

TEST(Agreement, AnItemThatOneRankLacksDiffers) {
  auto texts = told(2, [](Comm& comm) {
    std::vector<AgreementItem> items{{"recipe", "same"}};
    if (comm.rank() == 1) items.push_back({"adapter", "77"});
    check_agreement(comm, items);
  });
  EXPECT_TRUE(has(texts[0], "disagree on adapter")) << texts[0];
}

TEST(Replicas, AFlippedBitIsDetectedAndNamed) {
  auto check = [](Comm& comm, bool flip) {
    ParameterStore store;
    store.create_units({"embed", "layers.0"});
    store.add(0, "embed.weight", {3, 5}, true);
    store.add(1, "layers.0.up.weight", {4, 4}, true);
    ParameterRef down = store.add(1, "layers.0.down.weight", {4, 4}, true);
    store.allocate();
    if (flip && comm.rank() == 1) down.value().data[3] = 1e-30f;
    check_replicas(comm, value_replicas(store), comm.rank());
  };
  run_thread_ranks(3, [&](Comm& comm) { check(comm, false); });
  auto texts = told(3, [&](Comm& comm) { check(comm, true); });
  EXPECT_TRUE(has(texts[0], "layers.0.down.weight in layers.0")) << texts[0];
}

}  // namespace
}  // namespace dml
