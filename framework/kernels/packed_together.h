// Packed products for many threads. With as many tiles as threads, tiles are small, and where every task packs its own
// operands (packed.cpp), packing takes about as long as multiplying. So all threads pack some steps of the depth
// together, each value once, and multiply when all are through. Steps and sums are those of packed.cpp, so are the
// bits.
#pragma once

#include "kernels/packed.h"

namespace dml::kernels {

// Costs in multiply-adds.
constexpr double kPacking = 10;  // of packing a value
constexpr double kFar = 20;      // additional, where another core wrote it

/// How threads work on a product together.
struct Together {
  std::int64_t rows = 0, cols = 0;  // of a tile
  std::int64_t steps = 0;           // packed at a time; 0: the operands of a step are too large for so few threads
  double time = 0;                  // of a unit of the depth, in multiply-adds
};
Together together(const Product& p, std::int64_t threads);

/// A product whose depth is not 0. In parallel.
void multiply_together(const Product& p, const Together& how);

}  // namespace dml::kernels
