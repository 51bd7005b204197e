#include "nn/dora.h"

#include "kernels/dora.h"
#include "kernels/elementwise.h"

namespace dml {

void scale_by_magnitude(const LinearRows& r, Mat product, Mat y, Write mode, Pass& pass) {
  const LoraAdapter& lora = *r.linear->lora;
  if (!lora.norms)
    kernels::dora_norms(r.linear->value(), lora.a.value(), lora.b.value(), lora.scale, r.saved.norms.data);
  Mat scaled = pass.arena.matrix(y.rows, y.cols);
  kernels::copy(product, scaled);
  r.saved.plain.close(product);
  kernels::dora_scale(lora.magnitude.value().data, lora.norms ? lora.norms : r.saved.norms.data, scaled);
  if (mode == Write::set) kernels::copy(scaled, y);
  else kernels::add_scaled(scaled, 1, y);
}

Mat magnitude_backward(const LinearRows& r, ConstMat dy, Pass& pass) {
  const LoraAdapter& lora = *r.linear->lora;
  Mat dplain = pass.arena.matrix(dy.rows, dy.cols);
  if (Mat dm = lora.magnitude.grad(); !dm.empty())
    kernels::dora_magnitude_backward(dy, r.saved.plain.read(pass.arena), r.saved.norms.data, dm.data, pass.arena);
  kernels::copy(dy, dplain);
  kernels::dora_scale(lora.magnitude.value().data, r.saved.norms.data, dplain);
  return dplain;
}

}  // namespace dml
