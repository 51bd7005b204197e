// Weights that are NaN or infinite are refused before anything is computed with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/model_files.h"

namespace dml {

/// Which of the values in some bytes of a tensor is the first that is NaN or infinite as float32; -1 when none is, or
/// when the type holds no numbers that dml reads. As fast as memory: made for bytes that are read anyway.
std::int64_t first_not_finite(DType dtype, std::span<const std::byte> bytes);
/// The UserError of a tensor's bad value, with its place by row and column.
[[noreturn]] void refuse_not_finite(const TensorView& tensor, const std::string& directory, std::int64_t element);

/// The values of a tensor as float32, piece by piece; UserError naming tensor and element where one is no number. Pages
/// of the file that were read are given back.
class FiniteValues {
 public:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 22;  // values that are float32 at a time

  /// UserError when it is of a type that cannot be read as numbers. Both outlive this.
  FiniteValues(const TensorView& tensor, const std::string& directory);

  /// Elements [first, first + out.size()).
  void read(std::int64_t first, std::span<float> out) const;
  void scan() const;

 private:
  const TensorView& tensor_;
  const std::string& directory_;
};

}  // namespace dml
