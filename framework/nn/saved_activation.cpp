#include "nn/saved_activation.h"

#include "kernels/elementwise.h"

namespace dml {

SavedActivation SavedActivation::plan(std::int64_t rows, std::int64_t cols, DType dtype, Arena& saved) {
  SavedActivation k;
  if (dtype == DType::bf16) k.rounded = {saved.take<bf16>(rows * cols).data(), rows, cols};
  else k.whole = saved.matrix(rows, cols);
  return k;
}

SavedActivation SavedActivation::slice(std::int64_t first, std::int64_t count) const {
  SavedActivation part;
  if (whole.data) part.whole = whole.slice(first, count);
  if (rounded.data) part.rounded = rounded.slice(first, count);
  return part;
}

Mat SavedActivation::open(Arena& scratch) const {
  return whole.data ? whole : scratch.matrix(rounded.rows, rounded.cols);
}

void SavedActivation::close(ConstMat written) const {
  if (!whole.data) kernels::round_to_bf16(written, rounded);
}

void SavedActivation::save(ConstMat values) const {
  if (whole.data) kernels::copy(values, whole);
  else kernels::round_to_bf16(values, rounded);
}

Mat SavedActivation::read(Arena& scratch) const {
  if (whole.data) return whole;
  Mat values = scratch.matrix(rounded.rows, rounded.cols);
  kernels::widen_bf16(rounded, values);
  return values;
}

}  // namespace dml
