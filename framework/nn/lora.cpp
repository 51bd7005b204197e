#include "nn/lora.h"

#include "kernels/elementwise.h"
#include "kernels/lora.h"

namespace dml {
namespace {

Random dropout_mask(const LoraAdapter& lora, const Pass& pass) {
  return Random(pass.seed, Purpose::dropout, pass.micro_batch, lora.stream);
}

}  // namespace

ConstMat adapter_input(const LoraAdapter& lora, ConstMat x, Pass& pass) {
  if (!drops(lora, pass)) return x;
  Mat dropped = pass.arena.matrix(x.rows, x.cols);
  kernels::dropout(x, lora.dropout, dropout_mask(lora, pass), dropped, pass.first_row * x.cols);
  return dropped;
}

void adapter_input_backward(const LoraAdapter& lora, ConstMat ddown, ConstMat x, Mat dx, Pass& pass) {
  Arena::Scope scope(pass.arena);
  ConstMat input = adapter_input(lora, x, pass);
  bool masked = drops(lora, pass) && !dx.empty();
  Mat dinput = dx;
  if (masked) {
    dinput = pass.arena.matrix(dx.rows, dx.cols);
    kernels::fill(dinput.flat(), 0);
  }
  kernels::lora_down_backward(ddown, input, lora.a.value(), dinput, lora.a.grad(), pass.arena);
  if (masked) {
    kernels::dropout(dinput, lora.dropout, dropout_mask(lora, pass), dinput, pass.first_row * dx.cols);
    kernels::add_scaled(dinput, 1, dx);
  }
}

}  // namespace dml
