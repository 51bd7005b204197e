// The loops for the compiler's baseline target: four lanes.
#include <bit>

#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

#define DML_VECTOR_BYTES 16

namespace dml::kernels::portable {
namespace {
// Each builds on the one before.
// clang-format off
#include "kernels/simd/vector.inl"
#include "kernels/simd/packing.inl"
#include "kernels/simd/products.inl"
#include "kernels/simd/storage.inl"
#include "kernels/simd/packed.inl"
#include "kernels/simd/stored_rows.inl"
#include "kernels/simd/stored_blocks.inl"
#include "kernels/simd/stored_super_blocks.inl"
#include "kernels/simd/stored_products.inl"
#include "kernels/simd/rows.inl"
#include "kernels/simd/softmax.inl"
#include "kernels/simd/elementwise.inl"
// clang-format on
}  // namespace
#include "kernels/simd/table.inl"
}  // namespace dml::kernels::portable
