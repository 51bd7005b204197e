// What products in bf16 cost the gradients of every dense family: models of the goldens' configurations, four times as
// wide, as they begin, in float32 and in bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/bf16.h"
#include "golden.h"
#include "kernels/processor.h"

namespace dml {
namespace {

class WideFamily : public testing::TestWithParam<std::string> {
 protected:
  WideFamily() {
    for (std::int64_t* size : {&spec_.hidden, &spec_.ffn, &spec_.heads, &spec_.kv_heads}) *size *= 4;
  }
  void TearDown() override { kernels::use_precision(DType::f32); }

  // Of every unit, after a backward pass over the golden's batch; of weights rounded to bf16, if so.
  std::vector<std::vector<float>> gradients_in(DType precision, bool rounded_weights = false) {
    kernels::use_precision(precision);
    Training training;
    training.full = true;
    model_ = build_model(spec_, {}, training, GetParam());
    for (Unit& u : model_->parameters.units())
      for (std::int64_t i = 0; rounded_weights && i < u.size; ++i)
        u.value.floats()[i] = to_float(to_bf16(u.value.floats()[i]));
    model_->set_length(batch_.longest());
    std::vector<std::vector<float>> out;
    for (Unit& u : model_->parameters.units()) {
      out.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = out.back().data();
    }
    model_->reserve(model_->measure(GoldenModel::shape(batch_), true));
    UnitHooks no_hooks;
    loss_ = model_->train(batch_.view(), {}, no_hooks);
    return out;
  }

  const GoldenBatch batch_{golden_path(GetParam()) + "/batch.json"};
  ModelSpec spec_ = read_model_spec(golden_path(GetParam()) + "/model");
  std::unique_ptr<CausalLm> model_;
  double loss_ = 0;
};

// Some gradients are sums whose terms cancel, so that any rounding shows more in them. In the families with norms of
// queries and keys, or behind attention and MLP, some tensors move by 1 to 3 % in float32 when nothing but the weights
// is rounded: those may differ by three times that, as a product rounds a weight, an activation and a gradient. A
// scalar, xIELU's alpha, is one sum over all tokens and channels: it is compared with the largest gradient of its
// layer.
TEST_P(WideFamily, GradientsInBf16AreWithinTwoPercentOfThoseInFloat32) {
  const auto moved = gradients_in(DType::f32, true);
  const auto exact = gradients_in(DType::f32);
  const double loss = loss_;
  const auto rounded = gradients_in(DType::bf16);
  EXPECT_NEAR(loss_, loss, 5e-3 * loss);
  EXPECT_NE(rounded, exact);
  for (std::size_t u = 0; u < exact.size(); ++u) {
    double largest = 0;  // of the unit; a bias of keys has no gradient but noise
    for (const float x : exact[u]) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (const Parameter& p : model_->parameters.units()[u].parameters) {
      double dot = 0, a2 = 0, b2 = 0, top = 0, off = 0, by_weights = 0;
      for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double a = exact[u][at], b = rounded[u][at];
        dot += a * b, a2 += a * a, b2 += b * b;
        top = std::max(top, std::abs(a)), off = std::max(off, std::abs(a - b));
        by_weights = std::max(by_weights, std::abs(a - static_cast<double>(moved[u][at])));
      }
      if (top < 1e-5 * largest) continue;
      EXPECT_LE(off, p.size() == 1 ? 0.02 * largest : std::max(0.02 * top, 3 * by_weights)) << p.name;
      EXPECT_GE(dot / std::sqrt(a2 * b2), 0.999) << p.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, WideFamily, testing::ValuesIn(dense_golden_families()),
                         [](auto& row) { return row.param; });

}  // namespace
}  // namespace dml
