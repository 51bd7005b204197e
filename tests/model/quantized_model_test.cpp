// A model over a quantized base computes what one over the de-quantized values in float32 does, to the bit: unpacking
// is the only difference, and products are cut alike for every storage. The few rows that an expert may have are no
// exception, but int8 multiplies such rows with its codes, and the sum with the scale of the weight's row. Where scales
// are powers of two, that rounds nothing else, so experts get such scales here. (On AMX those codes are multiplied as
// integers: in another order, whose error tests/kernels bounds. The plainer AVX-512 takes its place.)
#include "checkpoint/quantized.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "core/parallel.h"
#include "kernels/processor.h"
#include "kernels/stored_format.h"
#include "model/golden.h"
#include "model/weight_slots.h"
#include "temporary_folder.h"

namespace dml {
namespace {

// The values that the quantized tensors stand for, in the form of the file.
std::map<std::string, std::vector<float>> dequantized(const TensorSource& base, const QuantizedLayout& layout) {
  std::map<std::string, std::vector<float>> values;
  for (const QuantizedMatrix& m : layout.matrices) {
    StoredTensor t = *base(m.name);
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

// The base, but every scale of int8 the power of two next to it.
TensorSource with_rounded_scales(const QuantizedBase& base, const QuantizedLayout& layout) {
  auto scales = std::make_shared<std::map<std::string, std::vector<float>>>();
  for (const QuantizedMatrix& m : layout.matrices) {
    const float* own = base.find(m.name)->scales;
    for (std::int64_t row = 0; row < m.rows; ++row)
      (*scales)[m.name].push_back(std::exp2(std::round(std::log2(std::max(own[row], 1e-30f)))));
  }
  return [&base, scales](const std::string& name) {
    auto t = base.find(name);
    if (t) t->scales = scales->at(name).data();
    return t;
  };
}

struct PlainerThanAmx {
  PlainerThanAmx() {
    if (kernels::best_isa() == kernels::Isa::amx) kernels::use_isa(kernels::Isa::avx512);
  }
  ~PlainerThanAmx() { kernels::use_isa(kernels::best_isa()); }
};

struct Result {
  double loss;
  std::vector<std::vector<float>> gradients;
};

Result run(GoldenModel& m, const GoldenBatch& batch) {
  UnitHooks nothing;
  double loss = m.model->train(batch.view(), {1, 0}, nothing);
  return {loss, m.gradients};
}

class QuantizedModel : public testing::TestWithParam<std::tuple<std::string, DType>> {};

TEST_P(QuantizedModel, ComputesWhatTheDequantizedModelDoes) {
  auto [family, scheme] = GetParam();
  const testing_tools::TemporaryFolder cache;
  std::string directory = golden_path(family) + "/model";
  ModelSpec spec = read_model_spec(directory);
  auto files = std::make_shared<ModelFiles>(directory);
  QuantizedBase base(spec, *files, scheme, cache.path());
  auto plain = golden_source(files);
  const bool codes_are_multiplied = spec.moe.experts > 0 && scheme == DType::int8;
  std::optional<PlainerThanAmx> isa;
  TensorSource stored = [&](const std::string& name) { return base.find(name); };
  if (codes_are_multiplied) isa.emplace(), stored = with_rounded_scales(base, quantized_layout(spec, scheme));
  auto values = dequantized(stored, quantized_layout(spec, scheme));

  GoldenBatch batch(golden_path(family) + "/batch.json");
  GoldenModel small(family, true, batch, "", 0.1, [&](const std::string& name) {
    auto t = stored(name);
    return t ? t : plain(name);
  });
  GoldenModel large(family, true, batch, "", 0.1, [&](const std::string& name) {
    auto t = plain(name);
    if (values.contains(name)) t->dtype = DType::f32, t->data = values.at(name).data();
    return t;
  });
  Result a = run(small, batch), b = run(large, batch);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradients, b.gradients);

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

INSTANTIATE_TEST_SUITE_P(Families, QuantizedModel,
                         testing::Combine(testing::ValuesIn(golden_families()),
                                          testing::Values(DType::nf4, DType::int8)),
                         [](auto& row) {
                           return fmt::format("{}_{}", std::get<0>(row.param), dtype_row(std::get<1>(row.param)).name);
                         });

}  // namespace
}  // namespace dml
