#include "nn/loss_head.h"

#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace dml {

double LossHead::loss(ConstMat x, std::span<const Token> labels, std::span<float> row_losses, Mat d, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Mat h = pass.arena.matrix(x.rows, x.cols);
  norm.forward(x, h);
  Mat dhead = d.empty() || !weight ? Mat{} : weight.grad();
  double sum = kernels::cross_entropy(h, value(), labels, softcap, row_losses, d.empty() ? Mat{} : h, dhead, pass.arena);
  if (!d.empty()) norm.backward(h, x, d, Write::set, pass.arena);
  return sum;
}

void LossHead::logits(ConstMat x, Mat logits, Arena& arena) const {
  Arena::Scope scope(arena);
  Mat h = arena.matrix(x.rows, x.cols);
  norm.forward(x, h);
  kernels::gemm_nt(h, value(), logits, Write::set);
  if (softcap > 0) kernels::soft_cap(softcap, logits);
}

}  // namespace dml
