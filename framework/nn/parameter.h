// Trainable parameters, grouped into units: the embedding, each decoder layer, the head. A unit is one contiguous block
// of values and one of gradients, which are reduced and saved as a whole. Strategies that shard gather and release its
// parts.
//
//   unit "layers.3"   [ norms, biases │    q    │    k    │    v    │    o    │    gate    │     up     │    down    ]
//   parts               0: all that     1         2         3         4         5            6            7
//                       is small        … every large matrix; an embedding or a head in several parts, by rows
//
// How ranks share a part: dist/shards.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/bf16.h"
#include "core/matrix.h"
#include "kernels/weight.h"

namespace dml {

/// What a parameter belongs to: some optimizers and learning rates are for hidden matrices only, or for the ends.
enum class ParameterRole : std::uint8_t {
  hidden,
  embedding,  // of tokens or positions
  head,
  saved,  // trained whole beside an adapter (modules_to_save)
};

struct Parameter {
  std::string name;                 // as in the Hugging Face or PEFT file
  std::int64_t offset = 0;          // floats from the start of the unit
  std::vector<std::int64_t> shape;  // one or two dimensions, as stored
  ParameterRole role = ParameterRole::hidden;
  bool decay = false;                                 // whether weight decay applies (matrices, not norms and biases)
  float learning_rate_scale = 1;                      // factor of this parameter's learning rate (LoRA+, lr_groups)
  std::int64_t trained_first = 0, trained_last = -1;  // trained elements [first, last); −1: to the end
  bool stale = false;                                 // gradient not yet written since begin_gradient()
  std::int64_t widened_at = -1;  // offset of its float32 copy in Unit::widened; −1: none (a matrix)

  std::int64_t size() const {
    std::int64_t n = 1;
    for (auto d : shape) n *= d;
    return n;
  }
  std::int64_t trained_end() const { return trained_last < 0 ? size() : trained_last; }
  std::int64_t trained_size() const { return trained_end() - trained_first; }
};

/// The trained rows of a parameter, for optimizers that work on matrices.
struct MatrixShape {
  std::int64_t rows = 1, cols = 0;
  bool matrix = false;  // false: a vector, or partly trained rows; treated as a single row
};
inline MatrixShape trained_matrix(const Parameter& p) {
  const std::int64_t size = p.trained_size();
  if (p.shape.size() != 2 || p.trained_first % p.shape[1] != 0 || size % p.shape[1] != 0) return {1, size, false};
  return {size / p.shape[1], p.shape[1], true};
}

/// The memory that values are bound to, in float32 or (ParameterStore::bf16_values) in bfloat16.
struct BoundValues {
  std::byte* data = nullptr;  // null: not bound
  DType dtype = DType::f32;

  BoundValues() = default;
  BoundValues(float* values) : data(reinterpret_cast<std::byte*>(values)) {}  // NOLINT: float32 are values
  BoundValues(std::byte* values, DType type) : data(values), dtype(type) {}

  explicit operator bool() const { return data != nullptr; }
  /// The values from `element` on.
  BoundValues from(std::int64_t element) const { return {data + dtype_bytes(dtype, element), dtype}; }
  /// Typed pointers; null for values of the other dtype.
  float* floats() const { return dtype == DType::f32 ? reinterpret_cast<float*>(data) : nullptr; }
  bf16* bf16s() const { return dtype == DType::bf16 ? reinterpret_cast<bf16*>(data) : nullptr; }
};

/// A contiguous range of a unit, which some strategies bind instead of the whole unit.
struct UnitPart {
  std::int64_t first = 0, last = 0;  // in floats of the unit; `first` is a multiple of 1024
  BoundValues value = {};
  float* grad = nullptr;

  std::int64_t size() const { return last - first; }
};

struct Unit {
  std::string name;  // "embed", "layers.3", "head"
  std::size_t number = 0;
  std::vector<Parameter> parameters;
  std::vector<UnitPart> parts = std::vector<UnitPart>(1);  // the first may be empty
  std::int64_t size = 0;                                   // in floats; parameters begin at multiples of 256
  BoundValues value;         // owned by the store; null if a strategy binds the parts instead
  float* widened = nullptr;  // with values in bfloat16: float32 copies of the vectors, which kernels read
  float* grad = nullptr;     // owned and bound by the distribution strategy; if null, as are those of the parts, no
                             // gradients are wanted
};

/// A layer's reference to a parameter. Pointers of units and parts may be rebound, so they are looked up at every use.
struct ParameterRef {
  Unit* unit = nullptr;
  std::size_t index = 0;  // in the unit
  std::int64_t offset = 0, rows = 0, cols = 0;
  std::size_t part = 0;  // the part in which it begins; 0: the part of the small parameters

  explicit operator bool() const { return unit != nullptr; }
  /// The values in float32; if the store holds bfloat16, vectors only.
  Mat value() const;
  /// The values as stored, for products.
  kernels::Weight weight() const;
  /// The gradient, to be added to; empty if none is wanted.
  Mat grad() const;
  /// The gradient for a kernel that writes every element: the first write of a step sets it, later ones add.
  struct Gradient {
    Mat values;
    Write mode = Write::add;
  };
  Gradient whole_grad() const;
  /// The number of parts that hold the parameter, and its rows in the k-th of them.
  std::size_t part_count() const;
  ParameterRef in_part(std::size_t k) const;

 private:
  BoundValues bound() const;
};

/// Zeroes the gradient of untrained elements in a part.
void mask_gradient(const Unit& unit, std::size_t part);

/// Owns the values of all trainable parameters. Parameters are added first; then allocate() fixes their addresses.
class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(ParameterStore&&) = default;
  ParameterStore& operator=(ParameterStore&&) = default;

  /// Creates all units at once, so that references to them stay valid.
  void create_units(std::vector<std::string> names);
  /// Adds a parameter to a unit. `matrix`: products read it, and weight decay applies. `part_rows` > 0: it has its own
  /// parts of so many rows each (the last may have fewer); such parameters must be added after the unit's others.
  ParameterRef add(std::size_t unit, std::string name, std::vector<std::int64_t> shape, bool matrix,
                   ParameterRole role = ParameterRole::hidden, std::int64_t part_rows = 0);
  /// Set before allocate(): values are stored in bfloat16, for an optimizer that rounds them (optim/bf16_weights.h).
  /// Products read bfloat16 matrices; norms, biases and other vectors have a float32 copy, which widen() updates.
  bool bf16_values = false;
  std::int64_t value_width() const { return bf16_values ? sizeof(bf16) : sizeof(float); }
  /// Allocates zeroed values for all units; `values` false: a strategy binds its own memory.
  void allocate(bool values = true);
  /// Bytes of all values, including the float32 copies.
  std::int64_t value_bytes() const { return floats() * value_width() + widened_bytes(); }
  std::int64_t widened_bytes() const;
  /// Updates the float32 copies of a unit (of all units) after values have changed; they must be bound.
  void widen(std::size_t unit);
  void widen();
  /// `memory` as values of this store's dtype, to be bound to a unit or a part.
  BoundValues values_at(std::byte* memory) const { return {memory, bf16_values ? DType::bf16 : DType::f32}; }
  /// A copy of the units without values and gradients.
  ParameterStore outline() const;
  /// Writes elements [first, last) of a parameter's initial values. Set if a strategy that never holds a parameter as a
  /// whole allocates the values.
  std::function<void(const Parameter& parameter, std::int64_t first, std::int64_t last, float* out)> start;
  /// Whether the values of the first and the last unit may share a buffer: they are never needed at the same time, and
  /// those of the first only in forward. False if the head reads the embedding.
  bool embedding_and_head_share_buffer = false;
  /// Whether the strategy binds values, or gradients, part by part instead of whole.
  bool values_in_parts = false, gradients_in_parts = false;
  /// Frees the values; for strategies that shard them.
  void release();

  /// Begins a new gradient without zeroing it: the first write to each parameter sets it (ParameterRef::whole_grad).
  void begin_gradient();
  /// Zeroes what this step did not write of a unit's gradient, and the padding between parameters.
  void end_gradient(std::size_t unit);

  std::vector<Unit>& units() { return units_; }
  const std::vector<Unit>& units() const { return units_; }
  /// The number of trainable elements, without padding.
  std::int64_t trainable() const;
  /// The number of elements of all units, with padding.
  std::int64_t floats() const;

 private:
  std::vector<Unit> units_;
  Arena values_, widened_;
};

/// Sets elements [first, first + values.size()) of a parameter. The unit's values must be bound as a whole.
void set_values(const Unit& unit, const Parameter& p, std::int64_t first, std::span<const float> values);
/// Reads elements [first, first + out.size()) as float32.
void read_values(const Unit& unit, const Parameter& p, std::int64_t first, std::span<float> out);

}  // namespace dml
