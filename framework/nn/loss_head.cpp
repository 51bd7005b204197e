#include "nn/loss_head.h"

#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/lora.h"

namespace dml {

double LossHead::loss(ConstMat x, std::span<const Token> labels, std::span<float> row_losses, Mat d, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Mat h = pass.arena.matrix(x.rows, x.cols);
  norm.forward(x, h);
  auto dhead = d.empty() || !weight ? ParameterRef::Gradient{} : weight.whole_grad();
  // The gradient of h may take its place, unless A's gradient needs h once more.
  Mat dh = d.empty() ? Mat{} : lora ? pass.arena.matrix(x.rows, x.cols) : h;
  kernels::LowRankLogits low;
  if (lora) {
    low = {pass.arena.matrix(x.rows, lora->a.rows), lora->b.value(), lora->scale, {}, {}};
    Arena::Scope input(pass.arena);
    kernels::lora_down(adapter_input(*lora, h, pass), lora->a.value(), low.down);
  }
  if (lora && !d.empty()) {
    low.ddown = pass.arena.matrix(x.rows, lora->a.rows);
    low.db = lora->b.grad();
  }
  double sum = kernels::cross_entropy(h, value(), labels, softcap, row_losses, dh, dhead.values, dhead.mode, pass.arena,
                                      lora ? &low : nullptr, pass.sparing);
  if (lora && !d.empty()) adapter_input_backward(*lora, low.ddown, h, dh, pass);
  if (!d.empty()) norm.backward(dh, x, d, Write::set, pass.arena);
  return sum;
}

void LossHead::logits(ConstMat x, Mat logits, Arena& arena) const {
  Arena::Scope scope(arena);
  Mat h = arena.matrix(x.rows, x.cols);
  norm.forward(x, h);
  kernels::gemm_nt(h, value(), logits, Write::set);
  if (lora) {
    Mat down = arena.matrix(x.rows, lora->a.rows);
    kernels::lora_down(h, lora->a.value(), down);
    kernels::lora_up(down, lora->b.value(), lora->scale, logits);
  }
  if (softcap > 0) kernels::soft_cap(softcap, logits);
}

}  // namespace dml
