// Weights that are NaN or infinite are refused before anything is computed with them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/model_files.h"

namespace dml {

/// The values of a tensor as float32, piece by piece; UserError naming tensor and element where one is no number. Pages of
/// the file that were read are given back.
class FiniteValues {
 public:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 22;  // values that are float32 at a time

  /// UserError when it is of a type that cannot be read as numbers. Both outlive this.
  FiniteValues(const TensorView& tensor, const std::string& directory);

  /// Elements [first, first + out.size()).
  void read(std::int64_t first, std::span<float> out) const;
  void look_through() const;

 private:
  [[noreturn]] void refuse(std::int64_t at) const;

  const TensorView& tensor_;
  const std::string& directory_;
};

/// Looks through every `stride`-th floating tensor from `first` on: the ranks of a host share the reading.
void refuse_not_finite(const ModelFiles& files, std::size_t first = 0, std::size_t stride = 1);

}  // namespace dml
