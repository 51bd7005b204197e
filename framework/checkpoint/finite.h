// Rejects weights that are NaN or infinite before anything is computed with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/model_files.h"

namespace dml {

/// Index of the first value that is NaN or infinite as float32; −1 if there is none, or if dml does not read the dtype
/// as numbers. Runs at memory bandwidth.
std::int64_t first_not_finite(DType dtype, std::span<const std::byte> bytes);
/// The place of an element, "[row, column]".
std::string place_in(const TensorView& tensor, std::int64_t element);
/// Throws the UserError for a tensor's non-finite value, with its row and column. `what`: what the tensor is part of.
[[noreturn]] void refuse_not_finite(const TensorView& tensor, const std::string& directory, std::int64_t element,
                                    const char* what = "base model");

/// Reads a tensor as float32 block by block; UserError naming tensor and element of a value that is not finite. Pages
/// of the file that were read are released.
class FiniteValues {
 public:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 22;  // values per block

  /// UserError when the dtype cannot be read as numbers. Both arguments outlive this object.
  FiniteValues(const TensorView& tensor, const std::string& directory);

  /// Reads elements [first, first + out.size()).
  void read(std::int64_t first, std::span<float> out) const;
  void scan() const;

 private:
  const TensorView& tensor_;
  const std::string& directory_;
};

}  // namespace dml
