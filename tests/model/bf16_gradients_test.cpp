// What products in bf16 cost the gradients of every dense family: models of the goldens' configurations, four times as
// wide, as they begin, in float32 and in bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden.h"
#include "kernels/processor.h"

namespace dml {
namespace {

class WideFamily : public testing::TestWithParam<std::string> {
 protected:
  WideFamily() {
    for (std::int64_t* size : {&spec_.hidden, &spec_.ffn, &spec_.heads, &spec_.kv_heads}) *size *= 4;
  }
  void TearDown() override { kernels::use_precision(kernels::Precision::f32); }

  // Of every unit, after a backward pass over the golden's batch.
  std::vector<std::vector<float>> gradients_in(kernels::Precision precision) {
    kernels::use_precision(precision);
    Training training;
    training.full = true;
    model_ = build_model(spec_, {}, training, GetParam());
    model_->set_length(batch_.longest());
    std::vector<std::vector<float>> out;
    for (Unit& u : model_->parameters.units()) {
      out.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = out.back().data();
    }
    model_->reserve(model_->measure(GoldenModel::shape(batch_), true));
    UnitHooks nobody;
    loss_ = model_->train(batch_.view(), {}, nobody);
    return out;
  }

  const GoldenBatch batch_{golden_path(GetParam()) + "/batch.json"};
  ModelSpec spec_ = read_model_spec(golden_path(GetParam()) + "/model");
  std::unique_ptr<CausalLm> model_;
  double loss_ = 0;
};

TEST_P(WideFamily, GradientsInBf16AreWithinTwoPercentOfThoseInFloat32) {
  const auto exact = gradients_in(kernels::Precision::f32);
  const double loss = loss_;
  const auto rounded = gradients_in(kernels::Precision::bf16);
  EXPECT_NEAR(loss_, loss, 5e-3 * loss);
  EXPECT_NE(rounded, exact);
  for (std::size_t u = 0; u < exact.size(); ++u) {
    double largest = 0;  // of the unit; a bias of keys has no gradient but noise
    for (const float x : exact[u]) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (const Parameter& p : model_->parameters.units()[u].parameters) {
      double dot = 0, a2 = 0, b2 = 0, top = 0, off = 0;
      for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double a = exact[u][at], b = rounded[u][at];
        dot += a * b, a2 += a * a, b2 += b * b;
        top = std::max(top, std::abs(a)), off = std::max(off, std::abs(a - b));
      }
      if (top < 1e-5 * largest) continue;
      EXPECT_LE(off, 0.02 * top) << p.name;
      EXPECT_GE(dot / std::sqrt(a2 * b2), 0.999) << p.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, WideFamily, testing::ValuesIn(dense_golden_families()),
                         [](auto& row) { return row.param; });

}  // namespace
}  // namespace dml
