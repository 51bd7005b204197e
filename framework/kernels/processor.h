// The processor features that the kernels use: the instruction set of the inner loops, and the precision of large
// products.
#pragma once

#include "core/dtype.h"

namespace dml::kernels {

enum class Isa { portable, avx2, avx512, amx };

/// The instruction set in use: the best of this machine, unless DML_ISA=portable|avx2|avx512|amx or use_isa() selects
/// another.
Isa isa();
const char* isa_name();
Isa best_isa();
/// For tests; no kernel may be running. Returns false if this machine lacks the instruction set.
bool use_isa(Isa wanted);

/// The dtype of the factors of large products: f32, or bf16 (rounded to nearest even). Sums are float32.
DType precision();
/// Sets the precision of the whole process. No kernel may be running.
void use_precision(DType wanted);
/// Whether the instruction set in use multiplies bf16 faster than float32.
bool has_fast_bf16();

}  // namespace dml::kernels
