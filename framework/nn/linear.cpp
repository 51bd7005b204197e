#include "nn/linear.h"

#include "core/error.h"
#include "kernels/dora.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/lora.h"

namespace dml {
namespace {

Random dropout_mask(const LoraAdapter& lora, const Pass& pass) {
  return Random(pass.seed, Purpose::dropout, pass.micro_batch, lora.stream);
}

// The input of A: x itself, or x with its dropout mask, made again by forward and backward.
ConstMat adapter_input(const LoraAdapter& lora, ConstMat x, Pass& pass) {
  if (!pass.training || lora.dropout == 0) return x;
  Mat dropped = pass.arena.matrix(x.rows, x.cols);
  kernels::dropout(x, lora.dropout, dropout_mask(lora, pass), dropped);
  return dropped;
}

}  // namespace

Linear::Saved Linear::plan(std::int64_t tokens, Arena& saved) const {
  Saved s;
  if (!lora) return s;
  s.down = saved.matrix(tokens, lora->a.rows);
  if (lora->magnitude) {
    s.plain = saved.matrix(tokens, out());
    s.norms = saved.matrix(1, out());
  }
  return s;
}

void Linear::forward(ConstMat x, Mat y, Write mode, Saved& s, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  // DoRA scales the sum of both products, so it cannot add to y in place.
  bool dora = lora && lora->magnitude;
  Mat product = dora ? s.plain : y;
  kernels::gemm_nt(x, value(), product, dora ? Write::set : mode);
  if (lora) {
    kernels::lora_down(adapter_input(*lora, x, pass), lora->a.value(), s.down);
    kernels::lora_up(s.down, lora->b.value(), lora->scale, product);
  }
  if (dora) {
    kernels::dora_norms(value(), lora->a.value(), lora->b.value(), lora->scale, s.norms.data);
    Mat scaled = pass.arena.matrix(y.rows, y.cols);
    kernels::copy(s.plain, scaled);
    kernels::dora_scale(lora->magnitude.value().data, s.norms.data, scaled);
    if (mode == Write::set)
      kernels::copy(scaled, y);
    else
      kernels::add_scaled(scaled, 1, y);
  }
  if (bias)
    kernels::add_bias(bias.value().data, y);
  else if (frozen_bias)
    kernels::add_bias(frozen_bias, y);
}

void Linear::backward(ConstMat dy, ConstMat x, const Saved& s, Mat dx, Write mode, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  if (Mat db = bias ? bias.grad() : Mat{}; !db.empty()) kernels::bias_backward(dy, db.data, pass.arena);
  if (lora && lora->magnitude) {
    Mat dplain = pass.arena.matrix(dy.rows, dy.cols);
    if (Mat dm = lora->magnitude.grad(); !dm.empty())
      kernels::dora_magnitude_backward(dy, s.plain, s.norms.data, dm.data, pass.arena);
    kernels::copy(dy, dplain);
    kernels::dora_scale(lora->magnitude.value().data, s.norms.data, dplain);
    dy = dplain;
  }
  if (Mat dw = weight ? weight.grad() : Mat{}; !dw.empty()) kernels::gemm_tn(dy, x, dw);
  if (!dx.empty()) kernels::gemm_nn(dy, value(), dx, mode);
  if (!lora) return;

  ConstMat input = adapter_input(*lora, x, pass);
  Mat ddown = pass.arena.matrix(dy.rows, s.down.cols);
  kernels::lora_up_backward(dy, s.down, lora->b.value(), lora->scale, ddown, lora->b.grad(), pass.arena);
  bool masked = pass.training && lora->dropout > 0 && !dx.empty();
  Mat dinput = dx;
  if (masked) {
    dinput = pass.arena.matrix(dx.rows, dx.cols);
    kernels::fill(dinput.flat(), 0);
  }
  kernels::lora_down_backward(ddown, input, lora->a.value(), dinput, lora->a.grad(), pass.arena);
  if (masked) {
    kernels::dropout(dinput, lora->dropout, dropout_mask(*lora, pass), dinput);
    kernels::add_scaled(dinput, 1, dx);
  }
}

}  // namespace dml
