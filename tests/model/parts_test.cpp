// A model whose large matrices are there only while they are needed: same bits, and the same calls whatever is in the
// batch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>

#include "golden.h"

namespace dml {
namespace {

// Holds what is small of all units, the two large parts that were asked for last, and gradients between their two
// calls.
class Lender : public UnitHooks {
 public:
  explicit Lender(ParameterStore& store) : store_(store) {
    for (Unit& u : store.units()) {
      values_.push_back(u.value.floats()), gradients_.push_back(u.grad);
      u.value = u.grad = nullptr;
      u.parts[0].value = values_.back(), u.parts[0].grad = gradients_.back();
    }
  }
  ~Lender() override {
    for (Unit& u : store_.units()) {
      u.value = values_[u.number], u.grad = gradients_[u.number];
      for (UnitPart& part : u.parts) part.value = part.grad = nullptr;
    }
  }
  void before_forward(int unit) override { calls += fmt::format("forward {}, ", unit); }
  void before_backward(int unit) override { calls += fmt::format("backward {}, ", unit); }
  void before_gradient(int unit) override { calls += fmt::format("gradient {}, ", unit); }
  void after_backward(int unit) override { calls += fmt::format("done {}, ", unit); }
  void before_values(std::size_t unit, std::size_t part, int direction) override {
    calls += fmt::format("{}.{}{}, ", unit, part, direction > 0 ? '>' : '<');
    UnitPart& p = store_.units()[unit].parts[part];
    std::erase(lent_, &p);
    p.value = values_[unit] + p.first;
    lent_.push_back(&p);
    if (lent_.size() <= 2) return;
    lent_.front()->value = nullptr;
    lent_.pop_front();
  }
  void before_part_gradient(std::size_t unit, std::size_t part) override {
    calls += fmt::format("{}.{}+, ", unit, part);
    UnitPart& p = store_.units()[unit].parts[part];
    p.grad = gradients_[unit] + p.first;
  }
  void after_part_gradient(std::size_t unit, std::size_t part) override {
    calls += fmt::format("{}.{}., ", unit, part);
    EXPECT_NE(std::exchange(store_.units()[unit].parts[part].grad, nullptr), nullptr);
  }
  std::string calls;

 private:
  ParameterStore& store_;
  std::vector<float*> values_, gradients_;
  std::deque<UnitPart*> lent_;
};

TEST(Parts, GiveTheBitsOfTheWholeAndMakeTheSameCallsWithoutABatch) {
  for (const std::string& family : golden_families())
    for (RecomputePolicy recompute : {RecomputePolicy::nothing, RecomputePolicy::mlp, RecomputePolicy::layers}) {
      SCOPED_TRACE(fmt::format("{} {}", family, static_cast<int>(recompute)));
      GoldenBatch batch(golden_path(family) + "/batch.json");
      GoldenModel m(family, false, batch);
      ParameterStore& store = m.model->parameters;
      m.model->recompute = recompute;
      m.model->reserve(m.model->measure(GoldenModel::shape(batch), true));
      UnitHooks no_hooks;
      m.zero();
      const double loss = m.model->train(batch.view(), {1, 0}, no_hooks);
      const auto whole = m.gradients;
      m.zero();
      store.values_in_parts = store.gradients_in_parts = true;
      m.model->reserve(m.model->measure(GoldenModel::shape(batch), true));
      {
        Lender lender(store);
        EXPECT_EQ(m.model->train(batch.view(), {1, 0}, lender), loss);
        const std::string calls = std::exchange(lender.calls, "");
        EXPECT_EQ(m.model->train({}, {1, 0}, lender), 0);
        EXPECT_EQ(lender.calls, calls);
        lender.calls.clear();
        EXPECT_EQ(m.model->evaluate(batch.view(), lender), loss);
        const std::string looking = std::exchange(lender.calls, "");
        EXPECT_EQ(m.model->evaluate({}, lender), 0);
        EXPECT_EQ(lender.calls, looking);
      }
      EXPECT_EQ(m.gradients, whole);
    }
}

}  // namespace
}  // namespace dml
