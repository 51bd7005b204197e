// The processor features that the kernels use: the instruction set of the inner loops, and the precision of large
// products.
#pragma once

#include "core/dtype.h"

namespace dml::kernels {

enum class Isa { portable, avx2, avx512, amx };

/// The instruction set in use: the best this machine has, unless DML_ISA=portable|avx2|avx512|amx or use_isa says
/// otherwise.
Isa isa();
const char* isa_name();
Isa best_isa();
/// For tests, while no kernel runs. False where this machine lacks the instruction set.
bool use_isa(Isa wanted);

/// Of the factors of large products: f32, or bf16, rounded to nearest, ties to even. Sums are float32.
DType precision();
/// For the whole process, while no kernel runs.
void use_precision(DType wanted);
/// Whether the instruction set in use multiplies bf16 faster than float32.
bool has_fast_bf16();

}  // namespace dml::kernels
