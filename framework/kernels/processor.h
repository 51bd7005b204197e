// The processor features that the kernels use: the instruction set of the inner loops, and the precision of large
// products.
#pragma once

namespace dml::kernels {

enum class Isa { portable, avx2, avx512, amx };

/// The instruction set in use: the best this machine has, unless DML_ISA=portable|avx2|avx512|amx or use_isa says
/// otherwise.
Isa isa();
const char* isa_name();
Isa best_isa();
/// For tests, while no kernel runs. False where this machine lacks the instruction set.
bool use_isa(Isa wanted);

/// Of the factors of large products; sums are float32.
enum class Precision {
  f32,
  bf16,  // factors are rounded to nearest, ties to even
};
Precision precision();
/// For the whole process, while no kernel runs.
void use_precision(Precision wanted);
/// Whether the instruction set in use multiplies bf16 faster than float32.
bool has_fast_bf16();

}  // namespace dml::kernels
