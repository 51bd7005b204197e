// A model over a quantised base computes what one over the de-quantised values in float32 does, to the bit: unpacking
// is the only difference, and products are cut alike for every storage.
#include "checkpoint/quantised.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/parallel.h"
#include "kernels/stored_format.h"
#include "model/golden.h"
#include "model/weight_slots.h"
#include "temporary_folder.h"

namespace dml {
namespace {

// The values that the quantised tensors stand for, in the form of the file.
std::map<std::string, std::vector<float>> dequantised(const QuantisedBase& base, const QuantisedLayout& layout) {
  std::map<std::string, std::vector<float>> values;
  for (const QuantisedMatrix& m : layout.matrices) {
    StoredTensor t = *base.find(m.name);
    std::vector<float> out(static_cast<std::size_t>(m.size()));
    kernels::unpack(t.as_matrix(m.rows, m.cols), 0, m.rows, 0, m.cols, out.data());
    if (m.transposed) {
      std::vector<float> turned(out.size());
      for (std::int64_t i = 0; i < m.size(); ++i)
        turned[static_cast<std::size_t>(m.order.place(i))] = out[static_cast<std::size_t>(i)];
      out = std::move(turned);
    }
    values[m.name] = std::move(out);
  }
  return values;
}

struct Result {
  double loss;
  std::vector<std::vector<float>> gradients;
};

Result run(GoldenModel& m, const GoldenBatch& batch) {
  UnitHooks nothing;
  double loss = m.model->train(batch.view(), {1, 0}, nothing);
  return {loss, m.gradients};
}

class QuantisedModel : public testing::TestWithParam<std::tuple<std::string, kernels::Storage>> {};

TEST_P(QuantisedModel, ComputesWhatTheDequantisedModelDoes) {
  auto [family, scheme] = GetParam();
  const testing_tools::TemporaryFolder cache;
  std::string directory = golden_path(family) + "/model";
  ModelSpec spec = read_model_spec(directory);
  auto files = std::make_shared<ModelFiles>(directory);
  QuantisedBase base(spec, *files, scheme, cache.path());
  auto plain = golden_source(files);
  auto values = dequantised(base, quantised_layout(spec, scheme));

  GoldenBatch batch(golden_path(family) + "/batch.json");
  GoldenModel small(family, true, batch, "", 0.1, [&](const std::string& name) {
    auto t = base.find(name);
    return t ? t : plain(name);
  });
  GoldenModel large(family, true, batch, "", 0.1, [&](const std::string& name) {
    auto t = plain(name);
    if (values.contains(name)) t->storage = kernels::Storage::f32, t->data = values.at(name).data();
    return t;
  });
  Result a = run(small, batch), b = run(large, batch);
  // An expert may have few rows, which int8 multiplies as integers: exactly, where floats are rounded.
  const bool rounded = spec.moe.experts > 0 && scheme == kernels::Storage::int8;
  EXPECT_NEAR(a.loss, b.loss, rounded ? 1e-5 * b.loss : 0);
  if (!rounded) {
    EXPECT_EQ(a.gradients, b.gradients);
  }
  for (std::size_t u = 0; rounded && u < b.gradients.size(); ++u) {
    float largest = 0;
    for (float g : b.gradients[u]) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < b.gradients[u].size(); ++i)
      ASSERT_NEAR(a.gradients[u][i], b.gradients[u][i], 1e-4f * largest) << u << " " << i;
  }

  int before = threads();
  for (int count : {1, 3}) {
    set_threads(count);
    small.zero();
    Result again = run(small, batch);
    EXPECT_EQ(again.loss, a.loss) << count << " threads";
    EXPECT_EQ(again.gradients, a.gradients) << count << " threads";
  }
  set_threads(before);

  // Merging starts from the values that were trained on.
  for (const WeightName& w : weight_names(spec))
    if (values.contains(w.tensor) && !w.fused()) {
      EXPECT_EQ(tensor_values(*small.model, {&w, 1}, false), values.at(w.tensor)) << w.tensor;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Families, QuantisedModel,
    testing::Combine(testing::ValuesIn(golden_families()),
                     testing::Values(kernels::Storage::nf4, kernels::Storage::int8)),
    [](auto& row) { return fmt::format("{}_{}", std::get<0>(row.param), kernels::stored_format(std::get<1>(row.param)).name); });

}  // namespace
}  // namespace dml
