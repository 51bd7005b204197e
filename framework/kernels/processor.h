// The processor features that the kernels use: the instruction set of the inner loops, and the precision of large
// products.
#pragma once

#include "core/dtype.h"

namespace dml::kernels {

enum class Isa { portable, avx2, avx512, avx512_bf16, amx };

/// The instruction set in use: the best of this machine, unless DML_ISA=portable|avx2|avx512|avx512_bf16|amx or
/// use_isa() selects another.
Isa isa();
const char* isa_name();
/// The last that this machine has; avx512_bf16 only where VDPBF16PS multiplies faster than float32: AMD's processors
/// issue it at the rate of VFMADD231PS, twice the products. Measured on Intel's Emerald Rapids, it is issued at a
/// quarter of that rate (bench/LOG.md). UserError if DML_ISA names none that this machine has.
Isa best_isa();
/// For tests; no kernel may be running. Returns false if this machine lacks the instruction set.
bool use_isa(Isa wanted);

/// The dtype of the factors of large products: f32, or bf16 (rounded to nearest even). Sums are float32.
DType precision();
/// The precision of products of few rows, which generate tokens. bf16: x is rounded where that is faster, to bf16 or,
/// with quantized weights on AVX2 and ggml's blocks on AMX, to 16-bit integers.
DType few_rows_precision();
/// Sets the precision of large products and of products of few rows for the whole process. No kernel may be running.
void use_precision(DType large, DType few_rows);
inline void use_precision(DType all) { use_precision(all, all); }
/// Whether the instruction set in use multiplies bf16 faster than float32, in large products.
bool has_fast_bf16();
/// Whether it has loops for products of few rows in bf16.
bool has_few_rows_in_bf16();

}  // namespace dml::kernels
