// Trained rows of a frozen embedding or head, which replace rows of the matrix (PEFT's trainable tokens).
#pragma once

#include <cstdint>
#include <vector>

#include "nn/parameter.h"

namespace dml {

struct TrainedTokens {
  ParameterRef rows;                  // (K, D)
  std::vector<std::int32_t> tokens;   // (K), ascending
  std::vector<std::int32_t> numbers;  // (K): the index in `rows` of each token

  explicit operator bool() const { return static_cast<bool>(rows); }
};

}  // namespace dml
