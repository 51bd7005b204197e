// Gated activations of gate and up saved in bf16: the bits of the same values in float32.
#include "kernels/gated_act.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/parallel.h"
#include "kernels/elementwise.h"
#include "values.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kRows = 7, kWidth = 3001, kSize = kRows * kWidth;  // three tasks, the last block is not full

struct Matrix {
  explicit Matrix(std::uint64_t seed) : held(values(kSize, seed, 3)) {}
  operator Mat() { return mat(held, kRows, kWidth); }       // NOLINT: what it holds as a view
  operator ConstMat() { return mat(held, kRows, kWidth); }  // NOLINT
  std::vector<float> held;
};

TEST(GatedAct, OfRoundedValuesHasTheBitsOfTheirFloat32Values) {
  for (Activation act : {Activation::silu, Activation::gelu_tanh, Activation::clamped_silu}) {
    Matrix gate(1), up(2), dh(3), h(4), wide_gate(5), wide_up(6);
    std::vector<bf16> saved_gate(kSize), saved_up(kSize);
    const RoundedGateUp saved{{saved_gate.data(), kRows, kWidth}, {saved_up.data(), kRows, kWidth}};
    gated_act(act, gate, up, h);
    Matrix over_up = up;
    gated_act(act, gate, over_up, over_up, saved);
    EXPECT_EQ(over_up.held, h.held);
    for (std::size_t i = 0; i < saved_gate.size(); ++i) {
      ASSERT_EQ(saved_gate[i].bits, to_bf16(gate.held[i]).bits) << i;
      ASSERT_EQ(saved_up[i].bits, to_bf16(up.held[i]).bits) << i;
    }

    widen_bf16(saved.gate, wide_gate);
    widen_bf16(saved.up, wide_up);
    Matrix of_rounded(7);
    gated_act(act, wide_gate, wide_up, h);
    gated_act(act, saved, of_rounded);
    EXPECT_EQ(of_rounded.held, h.held);
    Matrix dgate(8), dup = dh;
    gated_act_backward(act, dup, saved, dgate, dup);
    gated_act_backward(act, dh, wide_gate, wide_up);
    EXPECT_EQ(dgate.held, wide_gate.held);
    EXPECT_EQ(dup.held, wide_up.held);
  }
}

}  // namespace
}  // namespace dml::kernels
