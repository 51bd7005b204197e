// Packed products for many threads. With about one tile per thread, tiles are small; if every task packs its own
// operands, as in packed.cpp, packing takes about as long as multiplying. Here the threads share the packing: they pack
// the next group of k-steps while they multiply the current one, with one barrier between groups. Tasks are small, so
// that faster threads take more of them: with one task per thread, the threads of a virtual machine with 16 cores
// waited 30 % of the time (bench/LOG.md). The k-steps and the order of the sums are those of packed.cpp, so the results
// have the same bits.
#pragma once

#include "kernels/packed.h"

namespace dml::kernels {

/// The tiling of a product whose packing the threads share.
struct Together {
  std::int64_t rows = 0, cols = 0;  // of a tile
  std::int64_t steps = 0;           // of a group; 0: the operands of a step are too large for so few threads
  double time = 0;                  // of a unit of the depth, in multiply-adds
};
Together together(const Product& p, std::int64_t threads);

/// Computes the product with this tiling, in parallel. The depth must not be 0.
void multiply_together(const Product& p, const Together& how);

}  // namespace dml::kernels
