#include "dist/strategy.h"

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "core/error.h"
#include "dist/agreement.h"
#include "dist/counting_comm.h"
#include "dist/group_comm.h"
#include "dist/part_buffers.h"
#include "dist/replicated.h"
#include "dist/thread_ranks.h"
#include "dist/toy_model.h"

namespace dml {
namespace {

// All ranks' outcomes in one: values and norms must be the same on each, state is put together.
Outcome train(const std::string& name, int ranks, std::int64_t total, const Cut& cut = nullptr,
              const DistributionOptions& options = {}, bool tied = true, const StateLayout& layout = 1,
              const ToyRule& rule = toy_descent) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  run_thread_ranks(ranks, [&](Comm& comm) {
    comm.set_timeout(250);
    outcomes[static_cast<std::size_t>(comm.rank())] = train_toy(comm, name, total, cut, options, tied, layout, rule);
  });
  for (Outcome& other : outcomes) {
    EXPECT_EQ(other.values, outcomes[0].values) << "replicas differ";
    EXPECT_EQ(other.norms, outcomes[0].norms);
    for (auto& [parameter, plane] : other.state) {
      auto& whole = outcomes[0].state[parameter];
      whole.resize(plane.size());
      for (std::size_t i = 0; i < plane.size(); ++i)
        if (whole[i] == 0) whole[i] = plane[i];
    }
  }
  return outcomes[0];
}

void expect_same(const Outcome& a, const Outcome& b, const std::string& what) {
  ASSERT_EQ(a.values.size(), b.values.size());
  EXPECT_EQ(std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)), 0) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.state, b.state) << what;
}

TEST(Strategies, AllGiveTheSameBitsOnAnyNumberOfRanks) {
  const std::pair<std::int64_t, std::vector<int>> cases[] = {{1, {2}}, {8, {1, 2, 4, 8}}, {11, {3, 4}}};
  for (auto& [total, ranks_tried] : cases) {
    Outcome reference = train("none", 1, total);
    for (auto& row : strategies().rows())
      for (int ranks : ranks_tried)
        if (row.name != "none" || ranks == 1)
          expect_same(train(row.name, ranks, total), reference,
                      fmt::format("{} on {} ranks, {} micro-batches", row.name, ranks, total));
  }
}

// Rules that need whole matrices: embedding and head in several parts, matrices cut between ranks, and all of their
// state.
TEST(Strategies, GiveTheSameBitsWhereARuleNeedsWholeMatrices) {
  for (bool tied : {true, false}) {
    Outcome reference = train("none", 1, 8, nullptr, {}, tied, matrix_layout(), matrix_descent);
    for (auto& row : strategies().rows())
      for (int ranks : {1, 2, 3, 4})
        if (row.name != "none" || ranks == 1)
          expect_same(train(row.name, ranks, 8, nullptr, {}, tied, matrix_layout(), matrix_descent), reference,
                      fmt::format("{} on {} ranks, tied {}", row.name, ranks, tied));
  }
  for (const char* name : {"hybrid", "hybrid_zero2"})
    expect_same(train(name, 4, 8, nullptr, {.shard_size = 2}, true, matrix_layout(), matrix_descent),
                train("none", 1, 8, nullptr, {}, true, matrix_layout(), matrix_descent),
                fmt::format("{} in groups of two", name));
}

// The owner of a matrix holds all of its state, and no other rank any of it.
TEST(Strategies, ShareTheStateOfWholeMatricesEvenly) {
  run_thread_ranks(4, [](Comm& comm) {
    Toy toy(false);
    std::int64_t all = 0;
    for (Unit& unit : toy.store.units())
      for (const Parameter& p : unit.parameters) all += 4 * matrix_layout().floats(p, p.size());
    for (const char* name : {"zero1", "zero2", "zero3"}) {
      const std::int64_t mine = strategies().at(name).make(comm, {})->memory(toy.store, matrix_layout(), 2).state;
      EXPECT_LT(mine, all * 0.4) << name;
      EXPECT_NEAR(static_cast<double>(comm.sum(mine)), static_cast<double>(all), 0.02 * static_cast<double>(all))
          << name;
    }
  });
}

// Embedding and head share memory with the layers.
TEST(Strategies, GiveTheSameBitsWhereTheHeadIsNotTied) {
  Outcome reference = train("none", 1, 8, nullptr, {}, false);
  for (const char* name : {"zero2", "zero3", "hybrid", "hybrid_zero2"})
    for (int ranks : {1, 2, 3, 4})
      expect_same(train(name, ranks, 8, nullptr, {}, false), reference, fmt::format("{} on {} ranks", name, ranks));
}

TEST(Strategies, HybridGivesTheSameBitsInGroupsOfAnySize) {
  const std::tuple<std::int64_t, int, std::vector<int>> cases[] = {{8, 4, {1, 2, 4}}, {11, 4, {2}},   {1, 4, {2}},
                                                                   {16, 8, {2, 4}},   {7, 6, {2, 3}}, {2, 6, {2}}};
  for (auto& [total, ranks, sizes] : cases) {
    Outcome reference = train("none", 1, total);
    for (int size : sizes)
      for (const char* name : {"hybrid", "hybrid_zero2"})
        expect_same(train(name, ranks, total, nullptr, {.shard_size = size}), reference,
                    fmt::format("{}: {} micro-batches on {} ranks in groups of {}", name, total, ranks, size));
  }
}

TEST(Strategies, HybridWantsEqualGroups) {
  for (const char* name : {"hybrid", "hybrid_zero2"})
    EXPECT_THROW(train(name, 3, 4, nullptr, {.shard_size = 2}), UserError);
}

// Values as ddp holds them; gradients and state as zero2 within the group.
TEST(Strategies, HybridZero2HoldsAllValuesAndTheShardsOfItsGroup) {
  const auto held = [](const char* name, int ranks, int size) {
    DistributionStrategy::Memory memory;
    run_thread_ranks(ranks, [&](Comm& comm) {
      Toy toy;
      const auto strategy = strategies().at(name).make(comm, {.shard_size = size});
      EXPECT_FALSE(strategy->shards_values());
      EXPECT_EQ(strategy->shard_ranks(), 1);
      if (comm.rank() == 0) memory = strategy->memory(toy.store, 2, 2);
    });
    return memory;
  };
  const auto hybrid = held("hybrid_zero2", 4, 2), zero2 = held("zero2", 2, 0), ddp = held("ddp", 4, 0);
  EXPECT_EQ(hybrid.values, ddp.values);
  EXPECT_EQ(hybrid.state, zero2.state);
  EXPECT_LT(hybrid.state, 0.6 * static_cast<double>(ddp.state));
  EXPECT_LT(hybrid.gradients, ddp.gradients);
}

// What one rank after the other would have summed up, in double precision, against sums of what was sent.
TEST(Strategies, GradientsInBf16LoseNothingOverTheSteps) {
  const DistributionOptions half{.wire = {DType::bf16}, .shard_size = 2};
  for (const char* name : {"ddp", "zero1", "zero2", "zero3", "hybrid", "hybrid_zero2"}) {
    Outcome exact = train("none", 1, 8);
    Outcome rounded = train(name, 4, 8, nullptr, half), again = train(name, 4, 8, nullptr, half);
    expect_same(rounded, again, name);
    for (std::size_t i = 0; i < exact.norms.size(); ++i)
      EXPECT_NEAR(rounded.norms[i] / exact.norms[i], 1, 0.01) << name;
    EXPECT_NE(rounded.values, exact.values) << name;
  }
}

TEST(Strategies, AStepSendsNoMoreThanARingWould) {
  for (int ranks : {2, 4, 8}) {
    std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks));
    std::int64_t floats = 0;
    run_thread_ranks(ranks, [&](Comm& inner) {
      CountingComm comm(inner);
      Toy toy;
      auto ddp = strategies().at("ddp").make(comm, {});
      ddp->adopt(toy.store, 0);
      comm.sent = 0;
      MicroBatches mine = ddp->share(4 * ranks);
      ddp->begin_step(mine, 4 * ranks);
      for (std::int64_t j = 0; j < mine.count; ++j) {
        ddp->begin_micro_step(mine.first + j);
        toy.backward(*ddp, 0, mine.first + j);
      }
      ddp->finish_gradients();
      ddp->publish();
      ddp->end_step();
      sent[static_cast<std::size_t>(comm.rank())] = comm.sent;
      if (comm.rank() == 0) floats = toy.store.floats();
    });
    // On average over ranks, the few bytes of the micro-batch ranges aside.
    std::int64_t all = std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
    EXPECT_LE(all, 2 * (ranks - 1) * floats * 4 + ranks * ranks * 24) << ranks;
  }
}

TEST(Strategies, UnevenContiguousCutsGiveTheSameBits) {
  Outcome reference = train("none", 1, 11);
  Cut cut = [](std::int64_t, int rank, int) {
    const std::int64_t cuts[] = {0, 1, 1, 7, 11};
    return MicroBatches{cuts[rank], cuts[rank + 1] - cuts[rank], 1};
  };
  for (const char* name : {"ddp", "zero1"}) expect_same(train(name, 4, 11, cut), reference, name);
}

TEST(Strategies, WithoutTheTreeSumsAreRightAndOneBufferIsEnough) {
  Outcome reference = train("none", 1, 12);
  for (int ranks : {1, 2, 3, 16})  // with 16 some have nothing to do
    run_thread_ranks(ranks, [&](Comm& comm) {
      Toy toy;
      auto ddp = strategies().at("ddp").make(comm, {.tree = false});
      EXPECT_EQ(ddp->memory(toy.store, 0, 4).gradients, toy.store.floats() * 4);
      Outcome outcome = train_toy(comm, "ddp", 12, nullptr, {.tree = false});
      for (std::size_t i = 0; i < outcome.norms.size(); ++i)
        EXPECT_NEAR(outcome.norms[i], reference.norms[i], 1e-4 * reference.norms[i]);
    });
}

TEST(Strategies, RanksThatDisagreeAboutSharesAreAnError) {
  Cut cut = [](std::int64_t, int rank, int) { return MicroBatches{rank == 0 ? 0 : 3, 2, 1}; };
  EXPECT_THROW(train("ddp", 2, 4, cut), Error);
}

TEST(Strategies, NoneRefusesSeveralRanks) {
  EXPECT_THROW(run_thread_ranks(2, [](Comm& comm) { strategies().at("none").make(comm, {}); }), UserError);
}

TEST(GatheredValues, AreReleasedAfterAnException) {
  class Counting : public Replicated {
   public:
    explicit Counting(Comm& comm) : Replicated(comm, Updates::everything, {}) {}
    void gather_values() override { ++gathered; }
    void release_values() override { --gathered; }
    int gathered = 0;
  };
  const std::unique_ptr<Comm> comm = make_self_comm();
  Counting strategy(*comm);
  EXPECT_THROW(
      {
        const GatheredValues values(strategy);
        EXPECT_EQ(strategy.gathered, 1);
        throw UserError("the disk is full");
      },
      UserError);
  EXPECT_EQ(strategy.gathered, 0);
}

TEST(Strategies, OptimizerStateIsDividedByZero) {
  Toy toy;
  run_thread_ranks(4, [&](Comm& comm) {
    auto ddp = strategies().at("ddp").make(comm, {})->memory(toy.store, 2, 2);
    auto zero1 = strategies().at("zero1").make(comm, {})->memory(toy.store, 2, 2);
    EXPECT_EQ(ddp.gradients, 2 * toy.store.floats() * 4);
    EXPECT_GE(ddp.state, 2 * toy.store.trainable() * 4);
    const auto whole = static_cast<double>(ddp.state);  // shards are whole blocks, and aligned
    EXPECT_NEAR(comm.sum(static_cast<double>(zero1.state)), whole, 0.05 * whole);
    EXPECT_NEAR(static_cast<double>(zero1.state), whole / 4, 7 * kShardBlock * 8);
    auto zero2 = strategies().at("zero2").make(comm, {})->memory(toy.store, 2, 2);
    auto zero3 = strategies().at("zero3").make(comm, {})->memory(toy.store, 2, 2);
    for (auto& sharded : {zero2, zero3}) EXPECT_NEAR(comm.sum(static_cast<double>(sharded.state)), whole, 0.05 * whole);
    EXPECT_LT(zero2.gradients, zero1.gradients);
    EXPECT_LT(zero3.values, zero2.values);
    EXPECT_LE(ddp.communication,
              (toy.store.floats() + static_cast<std::int64_t>(toy.store.units().size()) * kShardBlock) * 4);
  });
}

TEST(Strategies, ValuesInBf16TakeHalfTheMemory) {
  Toy wide, narrow;
  narrow.store.bf16_values = true;
  const StateLayout layout = matrix_layout();
  run_thread_ranks(2, [&](Comm& comm) {
    for (const char* name : {"ddp", "zero1", "zero2", "zero3", "hybrid", "hybrid_zero2"}) {
      const auto strategy = strategies().at(name).make(comm, {});
      const auto a = strategy->memory(wide.store, layout, 2), b = strategy->memory(narrow.store, layout, 2);
      EXPECT_EQ(2 * (b.values - narrow.store.widened_bytes()), a.values) << name;
      EXPECT_EQ(b.gradients, a.gradients) << name;
      EXPECT_LE(b.communication, a.communication) << name;
    }
  });
}

// Optimizer state, and the shards of hybrid's groups: each against those who hold the same.
TEST(Replicas, AreComparedWhereOnlyAPartIsHeld) {
  auto text = [](const char* name, int spoilt) {
    std::string message;
    std::mutex one;
    try {
      run_thread_ranks(4, [&](Comm& comm) {
        Toy toy;
        auto strategy = strategies().at(name).make(comm, {.shard_size = 2});
        strategy->adopt(toy.store, 1);
        if (comm.rank() == spoilt)
          for (Shard& s : strategy->shards())
            if (s.parameter->name == "3.up") s.state[5] = 1;
        try {
          if (Comm* replicas = strategy->replica_group())
            check_replicas(*replicas, shard_replicas(toy.store, strategy->shards()), comm.rank());
        } catch (const Error& e) {
          std::lock_guard lock(one);
          if (message.empty()) message = e.what();  // later ones say that this rank failed
          throw;
        }
      });
    } catch (const Error&) {
    }
    return message;
  };
  for (const char* name : {"ddp", "zero1", "zero2", "zero3", "hybrid", "hybrid_zero2"})
    EXPECT_EQ(text(name, -1), "") << name;
  EXPECT_NE(text("ddp", 2).find("optimizer state of 3.up[0:2310] in layers.1"), std::string::npos) << text("ddp", 2);
  const std::string hybrid = text("hybrid", 2);
  EXPECT_NE(hybrid.find("optimizer state of 3.up["), std::string::npos) << hybrid;
  EXPECT_TRUE(hybrid.ends_with(": 0 | 2") || hybrid.ends_with(": 2 | 0")) << hybrid;
  EXPECT_EQ(text("zero3", 0), "");  // nobody else holds it
}

// Gathered parts share few buffers; parts that are needed at the same time do not share one.
TEST(PartBuffers, SeparateConsecutiveParts) {
  for (bool take_turns : {false, true})
    for (int ranks : {1, 2, 3, 8}) {
      Toy toy(!take_turns);
      const PartBuffers places(toy.store, ranks, true), values(toy.store, ranks, false);
      const std::vector<PartRef> parts = unit_parts(toy.store);
      std::vector<std::size_t> small, large;
      for (std::size_t s = 0; s < parts.size(); ++s) (parts[s].part == 0 ? small : large).push_back(s);
      for (std::size_t u = 1; u + 2 < small.size(); ++u) EXPECT_FALSE(places.overlap(small[u], small[u + 1])) << u;
      for (std::size_t p = 0; p + 1 < large.size(); ++p) {
        EXPECT_FALSE(places.overlap(large[p], large[p + 1])) << p;
        EXPECT_FALSE(places.exchanges_collide(large[p], large[p + 1])) << p;
      }
      for (std::size_t s : small)
        for (std::size_t p : large) EXPECT_FALSE(places.overlap(s, p) || places.exchanges_collide(s, p));
      EXPECT_EQ(places.overlap(small.back(), small[4]), take_turns);
      EXPECT_FALSE(!take_turns && (places.overlap(small[0], small.back()) || places.overlap(small[0], small[4])));
      EXPECT_EQ(values.floats(), values.whole_parts());
      for (std::size_t s = 0; s < parts.size(); ++s) {
        EXPECT_LE(places[s].last, places[s].room);
        EXPECT_LE(places[s].room + (ranks - 1) * places[s].chunk, places.floats());
        EXPECT_GE(places[s].last - places[s].first, parts[s].size);
        EXPECT_TRUE(parts[s].size == 0 || places[s].chunk > 0);
      }
    }
}

TEST(Wire, CarriesTheRoundingError) {
  const Wire wire{DType::bf16};
  Random random(1, Purpose::init);
  for (std::int64_t n : {0, 16, 256, 272, 4000}) {
    std::vector<bf16> residual(static_cast<std::size_t>(n), bf16{0});
    std::vector<double> wanted(residual.size()), sent(residual.size());
    std::vector<float> x(residual.size());
    for (int step = 0; step < 200; ++step) {
      for (std::size_t i = 0; i < x.size(); ++i)
        wanted[i] += x[i] = 1 + random.normal(i) * 0.01f;  // the same every step
      EXPECT_EQ(wire.bytes(x.data(), n).size(), 2 * x.size());
      wire.pack(x.data(), n, residual.data());
      wire.unpack(x.data(), n);
      for (std::size_t i = 0; i < x.size(); ++i) sent[i] += x[i];
    }
    // Rounded alone, 200 steps would be off by up to 200 · 2⁻⁸.
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(sent[i], wanted[i], 0.01) << i << " of " << n;
  }
}

TEST(Groups, PlaceRanksOfAHostTogether) {
  class Elsewhere : public Comm {  // hosts a, b, a, b
   public:
    explicit Elsewhere(Comm& inner) : inner_(inner) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    int local_rank() const override { return rank() / 2; }
    int local_size() const override { return 2; }
    std::string host() const override { return rank() % 2 == 0 ? "a" : "b"; }
    std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                      std::vector<std::span<std::byte>> receive, Operation operation) override {
      return inner_.exchange(std::move(send), std::move(receive), operation);
    }
    void abort(int code) override { inner_.abort(code); }

   private:
    Comm& inner_;
  };
  run_thread_ranks(4, [](Comm& inner) {
    Elsewhere comm(inner);
    GroupPlace place = group_ranks(comm, 0);
    EXPECT_EQ(place.inside, (comm.rank() % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3}));
    EXPECT_EQ(place.across, (comm.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3}));
    GroupComm group(comm, place.inside);
    EXPECT_EQ(group.sum(std::int64_t{comm.rank()}), comm.rank() % 2 == 0 ? 2 : 4);
  });
}

TEST(Slices, CoverTheUnitInWholeBlocks) {
  for (std::int64_t size : {0, 16, 1024, 1040, 100000})
    for (int ranks : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        ShardRange range = shard_range(size, r, ranks);
        EXPECT_EQ(range.first, next);
        next = range.last;
        if (r + 1 < ranks && next < size) {
          EXPECT_EQ(next % kShardBlock, 0);
        }
      }
      EXPECT_EQ(next, size);
    }
}

}  // namespace
}  // namespace dml
