// An activation that forward saves for backward: in float32, or rounded to bfloat16 in half the memory.
//
// Forward writes to open() and then calls close(), or calls save() with values stored elsewhere; backward calls read().
// With float32, open() and read() return the memory itself, without conversion.
#pragma once

#include "core/arena.h"
#include "core/bf16.h"
#include "core/dtype.h"
#include "core/matrix.h"

namespace dml {

/// Which activations a layer saves between forward and backward, and in which dtype: f32 or bf16.
struct SavePolicy {
  bool mlp = true;                   // gate and up of the MLP; otherwise backward recomputes them
  DType norm_inputs = DType::f32;    // the inputs of layers and of norms
  DType intermediates = DType::f32;  // q, k, v, outputs of attention, gate and up, DoRA's output before scaling
};

struct SavedActivation {
  Mat whole;
  MatrixView<bf16> rounded;  // instead of `whole`

  SavedActivation() = default;
  SavedActivation(Mat m) : whole(m) {}  // NOLINT: a matrix that is there is saved
  static SavedActivation plan(std::int64_t rows, std::int64_t cols, DType dtype, Arena& saved);

  explicit operator bool() const { return whole.data || rounded.data; }
  std::int64_t rows() const { return whole.data ? whole.rows : rounded.rows; }
  std::int64_t cols() const { return whole.data ? whole.cols : rounded.cols; }
  SavedActivation slice(std::int64_t first, std::int64_t count) const;

  Mat open(Arena& scratch) const;
  void close(ConstMat written) const;
  void save(ConstMat values) const;
  /// The values, in scratch memory if they were rounded. The last reader may overwrite them.
  Mat read(Arena& scratch) const;
};

}  // namespace dml
