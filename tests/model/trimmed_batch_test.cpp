// Only tokens that feed a label are visited.
#include <gtest/gtest.h>

#include "golden.h"

namespace dml {
namespace {

struct Batch {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};
  // The first `trained` positions have a label.
  void add(std::int32_t length, std::int32_t trained) {
    for (std::int32_t i = 0; i < length; ++i) {
      tokens.push_back((7 * i + 3) % 60);
      labels.push_back(i < trained ? (7 * i + 10) % 60 : kIgnore);
      positions.push_back(i);
    }
    starts.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  PackedBatch view() const { return {tokens, labels, positions, starts}; }
};

TEST(TrimmedBatch, TokensAfterTheLastLabelOfADocumentChangeNothing) {
  Batch all, needed;
  all.add(12, 9), all.add(5, 0), all.add(8, 8), all.add(20, 3), all.add(4, 0);
  needed.add(9, 9), needed.add(8, 8), needed.add(3, 3);
  EXPECT_EQ(all.view().labeled_length(0), 9);
  EXPECT_EQ(all.view().labeled_length(1), 0);
  GoldenBatch golden(golden_path("llama_tiny") + "/batch.json");
  GoldenModel m("llama_tiny", false, golden);
  m.model->reserve(m.model->measure({49, 20, 5}, true));
  UnitHooks no_hooks;
  std::vector<float> losses(20), losses_needed(20);
  m.zero();
  const double loss = m.model->train(all.view(), {1, 0}, no_hooks);
  const auto gradients = m.gradients;
  m.zero();
  EXPECT_EQ(m.model->train(needed.view(), {1, 0}, no_hooks), loss);
  EXPECT_EQ(m.gradients, gradients);
  EXPECT_EQ(m.model->evaluate(all.view(), no_hooks, losses), loss);
  EXPECT_EQ(m.model->evaluate(needed.view(), no_hooks, losses_needed), loss);
  EXPECT_EQ(losses, losses_needed);
  m.model->noise = 5;  // goes by the length of the whole document
  EXPECT_NE(m.model->train(all.view(), {1, 0}, no_hooks), m.model->train(needed.view(), {1, 0}, no_hooks));
}

}  // namespace
}  // namespace dml
