// The optimizer state of a parameter as named tensors:
//   by element    one entry per element, or (scales of 8-bit state, as in bitsandbytes) per block of 256
//   by parameter  entries of the whole parameter: row means, a basis, counters. Every slice has a copy of them
//
// An optimizer may need whole parameters (a norm of the tensor, a product of matrices). Then one rank updates the
// parameter and holds all of its state (dist/whole_parameters.h). Other optimizers work on any slice. Strategies split
// parameters at multiples of a block (dist/shards.h, nn/parameter.cpp), so the state of a slice has the same bytes as
// that range of the whole parameter's state.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "nn/parameter.h"

namespace dml {

/// One tensor of a parameter's state.
struct StateTensor {
  std::string name;  // "state0", "scale0", "row_mean" …
  DType dtype = DType::f32;
  std::int64_t elements_per_entry = 1;   // 0: the entries belong to the whole parameter
  std::vector<std::int64_t> shape = {};  // shape of the entries if elements_per_entry is 0
  std::int64_t offset = 0;               // in bytes from the start of the slice's state

  /// The number of entries of so many elements, which is also the index of the entry of the next element.
  std::int64_t entries(std::int64_t elements) const;
  std::int64_t width() const { return dtype_bytes(dtype, 1); }
};

/// The state of one parameter.
struct ParameterState {
  std::vector<StateTensor> tensors = {};
  bool whole = false;  // the optimizer needs the whole parameter
};

/// The maximum number of elements in a slice of a bfloat16 parameter whose optimizer takes any slice: it works on a
/// float32 copy.
inline constexpr std::int64_t kMaxWidenedElements = std::int64_t{1} << 22;

class StateLayout {
 public:
  static constexpr std::int64_t kBlock = 256, kMinElements = 4096;

  /// `planes` floats per element.
  StateLayout(int planes) : planes_(planes) {}  // NOLINT: a number of planes is a layout
  /// `planes` bytes per element and a scale per block; the state of embeddings and of parameters with fewer than 4096
  /// elements stays in float32, as with transformers' Trainer.
  static StateLayout eight_bit(int planes);
  /// A layout that depends on the parameter. Tensors of doubles must come first.
  using Rule = std::function<ParameterState(const Parameter&)>;
  explicit StateLayout(Rule rule) : rule_(std::move(rule)) {}

  /// Whether a parameter, and each of its slices, has 8-bit state.
  bool in_bytes(const Parameter& parameter) const {
    return eight_bit_ && parameter.role != ParameterRole::embedding && parameter.size() >= kMinElements;
  }
  bool whole(const Parameter& parameter) const { return rule_ && rule_(parameter).whole; }
  /// Byte offsets of the codes and scales of a plane in the 8-bit state of a slice of `size` elements.
  static std::int64_t codes_at(int planes, int plane, std::int64_t size);
  static std::int64_t scales_at(int plane, std::int64_t size);
  /// The size of the state of a slice of `size` elements, in floats.
  std::int64_t floats(const Parameter& parameter, std::int64_t size) const;
  /// The tensors of a slice, in the order of their offsets.
  std::vector<StateTensor> tensors(const Parameter& parameter, std::int64_t size) const;

 private:
  std::vector<StateTensor> kinds(const Parameter& parameter) const;

  int planes_ = 0;
  bool eight_bit_ = false;
  Rule rule_;
};

}  // namespace dml
