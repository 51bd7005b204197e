// A frozen matrix of a model that is copied into memory of the model's own, so that its values can be changed.
#pragma once

#include <cstdint>
#include <functional>

#include "model/causal_lm.h"
#include "model/weight_names.h"

namespace dml {

struct OwnMatrix {
  WeightName place;
  kernels::Weight original;  // where the model was loaded
  kernels::Weight own;       // float32 or bfloat16

  std::size_t bytes() const;
  void* data() const { return const_cast<void*>(own.data); }  // own memory, which a Weight only shows
};

/// Copies the matrix at `place` into memory that the model owns: bfloat16, quantised values too, unless it is asked for
/// in float32 or was stored in float32 or float16. A head that is tied to an embedding keeps the original.
OwnMatrix own_matrix(CausalLm& model, const WeightName& place, bool in_float32);

/// Overwrites the matrix, in parallel: read(first, count, out) gives rows as float32, and may look at the old ones.
void set_rows(const OwnMatrix& matrix,
              const std::function<void(std::int64_t first, std::int64_t count, float* out)>& read);
/// The values it had when it was loaded.
void restore(const OwnMatrix& matrix);

}  // namespace dml
