// What optimizers know of a model's parameters.
#include <gtest/gtest.h>

#include <set>

#include "model/golden.h"
#include "model/weight_slots.h"
#include "optim/optimizer.h"

namespace dml {
namespace {

// Muon is for hidden matrices; its momentum is one float, AdamW's state is two.
TEST(ParameterRoles, MuonLeavesTheEmbeddingAndTheHeadOfEveryFamilyToAdamW) {
  const auto muon = optimizers().at("muon").make({1e-3});
  for (const std::string& family : golden_families()) {
    SCOPED_TRACE(family);
    GoldenBatch batch(golden_path(family) + "/batch.json");
    GoldenModel m(family, false, batch);
    std::set<std::string> ends;
    for (const WeightName& w : weight_names(m.model->spec))
      if (w.role == WeightRole::embed || w.role == WeightRole::positions || w.role == WeightRole::head)
        ends.insert(w.tensor);
    for (const Unit& unit : m.model->parameters.units())
      for (const Parameter& p : unit.parameters) {
        const bool hidden = p.shape.size() == 2 && !ends.contains(p.name);
        EXPECT_EQ(muon->state().floats(p, p.size()), hidden ? p.size() : 2 * p.size()) << p.name;
      }
  }
}

TEST(LayerLinears, AreAllMatricesOfTheLayers) {
  for (const std::string& family : golden_families()) {
    SCOPED_TRACE(family);
    GoldenBatch batch(golden_path(family) + "/batch.json");
    GoldenModel m(family, true, batch);
    std::int64_t values = 0, expected = 0;
    for (const Linear* linear : m.model->layer_linears()) values += linear->value().rows * linear->value().cols;
    for (const WeightName& w : weight_names(m.model->spec))
      if (w.layer >= 0 && !w.vector && !w.bias && linear_at(*m.model, w)) expected += w.size();
    EXPECT_EQ(values, expected);
  }
}

}  // namespace
}  // namespace dml
