// The state that an optimizer keeps for a parameter between steps, as named tensors:
//   by element    one entry per element, or (scales of state in bytes, as bitsandbytes keeps it) per block of 256
//   by parameter  entries of the parameter as a whole: row means, a basis, counters. Every slice has a copy of them
//
// A rule may need whole parameters (a norm of the tensor, a product of matrices). Then one rank updates all of the
// parameter and holds all of its state (dist/whole_parameters.h). Other rules work on any slice: strategies that cut
// parameters into slices cut at multiples of a block (dist/shards.h, nn/parameter.cpp), so a slice's state holds the
// same bytes as that range of the whole parameter's.
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
  std::int64_t each = 1;                 // elements that share an entry; 0: the entries are of the whole parameter
  std::vector<std::int64_t> shape = {};  // with each 0: of its entries
  std::int64_t offset = 0;               // of its first entry, in bytes from the start of the slice's state

  /// The index of the entry of element `elements`, which is also the number of entries of that many elements.
  std::int64_t entries(std::int64_t elements) const;
  std::int64_t width() const { return dtype_bytes(dtype, 1); }
};

/// The state of one parameter.
struct ParameterState {
  std::vector<StateTensor> tensors = {};
  bool whole = false;  // its rule needs the whole parameter
};

/// Of a parameter in bfloat16 whose rule takes any slice, a slice has no more elements than this: a rule works on a
/// copy in float32.
inline constexpr std::int64_t kMostWidened = std::int64_t{1} << 22;

class StateLayout {
 public:
  static constexpr std::int64_t kBlock = 256, kFewest = 4096;

  /// `planes` floats per element.
  StateLayout(int planes) : planes_(planes) {}  // NOLINT: a number of planes is a layout
  /// `planes` bytes per element with a scale per block; parameters of fewer than 4096 elements stay in float32.
  static StateLayout eight_bit(int planes);
  /// Differs by parameter. Tensors of doubles come first.
  using Rule = std::function<ParameterState(const Parameter&)>;
  explicit StateLayout(Rule rule) : rule_(std::move(rule)) {}

  /// Whether a parameter of `parameter_size` elements has its state in bytes; its slices follow.
  bool in_bytes(std::int64_t parameter_size) const { return eight_bit_ && parameter_size >= kFewest; }
  bool whole(const Parameter& parameter) const { return rule_ && rule_(parameter).whole; }
  /// Where codes and scales of a plane of bytes begin in the state of a slice of `size` elements, in bytes.
  static std::int64_t codes_at(int planes, int plane, std::int64_t size);
  static std::int64_t scales_at(int plane, std::int64_t size);
  /// Floats of state that a slice of `size` elements takes.
  std::int64_t floats(const Parameter& parameter, std::int64_t size) const;
  /// The tensors of a slice, in the order in which they lie.
  std::vector<StateTensor> tensors(const Parameter& parameter, std::int64_t size) const;

 private:
  std::vector<StateTensor> kinds(const Parameter& parameter) const;

  int planes_ = 0;
  bool eight_bit_ = false;
  Rule rule_;
};

}  // namespace dml
