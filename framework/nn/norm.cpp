#include "nn/norm.h"

#include "kernels/norm.h"

namespace dml {

void Norm::forward(ConstMat x, Mat y) const {
  if (layer_norm) kernels::layer_norm(x, value(), bias ? bias.value().data : frozen_bias, offset, eps, y);
  else kernels::rms_norm(x, value(), offset, eps, y);
}

void Norm::backward(ConstMat dy, ConstMat x, Mat dx, Write mode, Arena& scratch) const {
  float* dw = weight ? weight.grad().data : nullptr;
  float* db = bias ? bias.grad().data : nullptr;
  if (dx.empty() && !dw && !db) return;
  Arena::Scope scope(scratch);
  if (dx.empty()) {
    dx = scratch.matrix(x.rows, x.cols);
    mode = Write::set;
  }
  if (layer_norm) kernels::layer_norm_backward(dy, x, value(), offset, eps, dx, mode, dw, db, scratch);
  else kernels::rms_norm_backward(dy, x, value(), offset, eps, dx, mode, dw, scratch);
}

}  // namespace dml
