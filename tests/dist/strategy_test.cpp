#include "dist/strategy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "dist/slices.h"

namespace dml {
namespace {

// A toy model: gradients are pseudo-random functions of (step, micro-batch, element) and of the values, so that a value
// that was not published, or a gradient lost, shows in the next step.
class Toy {
 public:
  Toy() {
    store.create_units({"embed", "layers.0", "frozen", "layers.1", "head"});
    store.add(0, "embed.weight", {50, 64}, true);
    for (std::size_t u : {1u, 3u}) {
      store.add(u, fmt::format("{}.norm", u), {33}, false);
      store.add(u, fmt::format("{}.up", u), {70, 33}, true);
      store.add(u, fmt::format("{}.down", u), {33, 70}, true);
    }
    store.add(4, "head.weight", {7, 11}, true);
    store.allocate();
  }

  void backward(DistributionStrategy& strategy, std::int64_t step, std::int64_t index) {
    int units = static_cast<int>(store.units().size());
    for (int u = 0; u < units; ++u) {
      strategy.before_forward(u);
      strategy.after_forward(u);
    }
    for (int u = units - 1; u >= 0; --u) {
      strategy.before_backward(u);
      Unit& unit = store.units()[static_cast<std::size_t>(u)];
      Random random(3, Purpose::noise, static_cast<std::uint64_t>(step * 1000 + index), static_cast<std::uint32_t>(u));
      for (const Parameter& p : unit.parameters)
        for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i) {
          auto at = static_cast<std::uint64_t>(i);
          unit.grad[i] += random.normal(at) * static_cast<float>(1 << (random.word(at + 99999) % 10)) + unit.value[i];
        }
      strategy.after_backward(u);
    }
  }

  ParameterStore store;
};

struct Outcome {
  std::vector<float> values;
  std::vector<double> norms;
  std::map<std::string, std::vector<float>> state;  // by parameter, one plane
};

using Cut = std::function<MicroBatches(std::int64_t total, int rank, int ranks)>;

// Three steps of descent with a momentum plane, of `total` micro-batches each; what rank 0 sees in the end.
Outcome train(const std::string& name, int ranks, std::int64_t total, const Cut& cut = nullptr) {
  Outcome outcome;
  std::mutex mutex;
  run_thread_ranks(ranks, [&](Comm& comm) {
    comm.set_timeout(60);
    Toy toy;
    Random random(5, Purpose::init);
    for (Unit& unit : toy.store.units())
      for (const Parameter& p : unit.parameters)
        for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i)
          unit.value[i] = comm.rank() == 0 ? random.normal(static_cast<std::uint64_t>(i)) : 77;  // rank 0's win
    auto strategy = strategies().at(name).make(comm);
    strategy->adopt(toy.store, 1);
    std::vector<double> norms;
    for (std::int64_t step = 0; step < 3; ++step) {
      comm.set_step(step);
      MicroBatches mine = cut ? cut(total, comm.rank(), ranks) : strategy->share(total);
      strategy->begin_step(mine, total);
      for (std::int64_t j = 0; j < mine.count; ++j) {
        std::int64_t index = mine.first + j * mine.stride;
        strategy->begin_micro_step(index);
        toy.backward(*strategy, step, index);
      }
      auto shards = strategy->finish_gradients();
      norms.push_back(strategy->squared_gradient_norm());
      EXPECT_EQ(first_not_finite_gradient(comm, toy.store, shards), "");
      for (Shard& s : shards)
        for (std::size_t i = 0; i < s.value.size(); ++i) {
          s.state[i] = 0.5f * s.state[i] + s.grad[i] * 1e-4f;
          s.value[i] -= s.state[i];
        }
      strategy->publish();
      strategy->end_step();
    }
    double owned = 0;
    for (Shard& s : strategy->shards()) owned += static_cast<double>(s.value.size());
    EXPECT_EQ(strategy->total(owned), static_cast<double>(toy.store.trainable()));
    strategy->gather_values();
    std::vector<float> values;
    for (Unit& unit : toy.store.units())
      for (const Parameter& p : unit.parameters) values.insert(values.end(), unit.value + p.offset, unit.value + p.offset + p.size());
    std::lock_guard lock(mutex);
    for (Shard& s : strategy->shards()) {
      auto& plane = outcome.state[s.parameter->name];
      plane.resize(static_cast<std::size_t>(s.parameter->size()));
      std::copy(s.state.begin(), s.state.end(), plane.begin() + s.first);
    }
    if (outcome.values.empty()) {
      outcome.values = values;
      outcome.norms = norms;
    }
    EXPECT_EQ(std::memcmp(values.data(), outcome.values.data(), values.size() * sizeof(float)), 0) << "replicas differ";
    EXPECT_EQ(norms, outcome.norms);
  });
  return outcome;
}

void expect_same(const Outcome& a, const Outcome& b, const std::string& what) {
  ASSERT_EQ(a.values.size(), b.values.size());
  EXPECT_EQ(std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)), 0) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.state, b.state) << what;
}

TEST(Strategies, AllGiveTheSameBitsOnAnyNumberOfRanks) {
  for (std::int64_t total : {1, 4, 8, 6}) {
    Outcome reference = train("none", 1, total);
    for (auto& row : strategies().rows())
      for (int ranks : {1, 2, 3, 4, 8})
        if (row.name != "none" || ranks == 1)
          expect_same(train(row.name, ranks, total), reference, fmt::format("{} on {} ranks, {} micro-batches", row.name, ranks, total));
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

TEST(Strategies, RanksThatDisagreeAboutTheCutAreTold) {
  Cut cut = [](std::int64_t, int rank, int) { return MicroBatches{rank == 0 ? 0 : 3, 2, 1}; };
  EXPECT_THROW(train("ddp", 2, 4, cut), Error);
}

TEST(Strategies, NoneRefusesSeveralRanks) {
  EXPECT_THROW(run_thread_ranks(2, [](Comm& comm) { strategies().at("none").make(comm); }), UserError);
}

TEST(Strategies, OptimizerStateIsDividedByZero) {
  Toy toy;
  run_thread_ranks(4, [&](Comm& comm) {
    auto ddp = strategies().at("ddp").make(comm)->memory(toy.store, 2, 2);
    auto zero1 = strategies().at("zero1").make(comm)->memory(toy.store, 2, 2);
    EXPECT_EQ(ddp.gradients, 2 * toy.store.floats() * 4);
    EXPECT_GE(ddp.state, 2 * toy.store.trainable() * 4);
    EXPECT_NEAR(static_cast<double>(zero1.state), static_cast<double>(ddp.state) / 4, 5 * kSliceBlock * 8);
    EXPECT_LE(ddp.communication, toy.store.floats() * 4);
  });
}

TEST(Strategies, AGradientThatIsNoNumberIsNamedTheSameOnEveryRank) {
  for (const char* name : {"ddp", "zero1"})
    run_thread_ranks(2, [&](Comm& comm) {
      Toy toy;
      auto strategy = strategies().at(name).make(comm);
      strategy->adopt(toy.store, 0);
      MicroBatches mine = strategy->share(2);
      strategy->begin_step(mine, 2);
      strategy->begin_micro_step(mine.first);
      toy.backward(*strategy, 0, mine.first);
      auto shards = strategy->finish_gradients();
      for (Shard& s : shards)
        if (s.parameter->name == "3.up" && s.first <= 2000 && 2000 < s.first + s.size)
          s.grad[static_cast<std::size_t>(2000 - s.first)] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(first_not_finite_gradient(comm, toy.store, shards), "layers.1: 3.up[2000] = nan");
      strategy->end_step();
    });
}

TEST(Slices, CoverTheUnitInWholeBlocks) {
  for (std::int64_t size : {0, 16, 1024, 1040, 100000})
    for (int ranks : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        Slice slice = slice_of(size, r, ranks);
        EXPECT_EQ(slice.first, next);
        next = slice.last;
        if (r + 1 < ranks && next < size) { EXPECT_EQ(next % kSliceBlock, 0); }
      }
      EXPECT_EQ(next, size);
    }
}

}  // namespace
}  // namespace dml
