// A frozen matrix that is copied from a mapped file into the model's memory, so that its values can change.
#pragma once

#include <cstdint>
#include <functional>

#include "model/causal_lm.h"
#include "model/weight_names.h"

namespace dml {

struct OwnedMatrix {
  WeightName place;
  kernels::Weight original;  // in the mapped file
  kernels::Weight own;       // float32 or bfloat16

  std::size_t bytes() const;
  void* data() const { return const_cast<void*>(own.data); }  // writable, although a Weight is a const view
};

/// Copies the matrix `place` into memory of the model: as float32 with `in_float32` or if it is stored in float32 or
/// float16; otherwise, also if quantized, as bfloat16. A tied head keeps reading the original.
OwnedMatrix copy_to_owned(CausalLm& model, const WeightName& place, bool in_float32);

/// Overwrites the matrix, in parallel. read(first, count, out) writes rows as float32 and may read the old values.
void set_rows(const OwnedMatrix& matrix,
              const std::function<void(std::int64_t first, std::int64_t count, float* out)>& read);
/// Restores the original values.
void restore(const OwnedMatrix& matrix);

}  // namespace dml
