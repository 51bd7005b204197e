// Trainable parameters, grouped into units: the embedding, each decoder layer, the head. A unit is one contiguous block
// of values and one of gradients; it is what gets reduced and saved. Its parts are what gets gathered, and given up
// again, by strategies that shard.
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

struct Parameter {
  std::string name;                                   // as in the Hugging Face or PEFT file
  std::int64_t offset = 0;                            // floats from the start of the unit
  std::vector<std::int64_t> shape;                    // one or two dimensions, as stored
  bool decay = false;                                 // weight decay applies (matrices, not norms and biases)
  float learning_rate_scale = 1;                      // LoRA+ and the like
  std::int64_t trained_first = 0, trained_last = -1;  // elements that are trained; −1: to the end
  bool stale = false;                                 // not yet written since begin_gradient()
  std::int64_t widened_at = -1;                       // in Unit::widened; −1: a matrix, which has no copy there

  std::int64_t size() const {
    std::int64_t n = 1;
    for (auto d : shape) n *= d;
    return n;
  }
  std::int64_t trained_end() const { return trained_last < 0 ? size() : trained_last; }
  std::int64_t trained_size() const { return trained_end() - trained_first; }
};

/// The trained rows of a parameter, for rules that work on matrices.
struct MatrixShape {
  std::int64_t rows = 1, cols = 0;
  bool matrix = false;  // false: one dimension, or rows that are trained in part; then it is a single row
};
inline MatrixShape trained_matrix(const Parameter& p) {
  const std::int64_t size = p.trained_size();
  if (p.shape.size() != 2 || p.trained_first % p.shape[1] != 0 || size % p.shape[1] != 0) return {1, size, false};
  return {size / p.shape[1], p.shape[1], true};
}

/// Where values are bound: in float32, or in bfloat16 where the store keeps them so.
struct BoundValues {
  std::byte* data = nullptr;  // null: none are bound
  DType dtype = DType::f32;

  BoundValues() = default;
  BoundValues(float* values) : data(reinterpret_cast<std::byte*>(values)) {}  // NOLINT: float32 are values
  BoundValues(std::byte* values, DType type) : data(values), dtype(type) {}

  explicit operator bool() const { return data != nullptr; }
  /// The same from an element on.
  BoundValues from(std::int64_t element) const { return {data + dtype_bytes(dtype, element), dtype}; }
  /// As what they are; null for those of the other type.
  float* floats() const { return dtype == DType::f32 ? reinterpret_cast<float*>(data) : nullptr; }
  bf16* halves() const { return dtype == DType::bf16 ? reinterpret_cast<bf16*>(data) : nullptr; }
};

/// A range of a unit. Bound by strategies that do not bind the whole unit.
struct UnitPart {
  std::int64_t first = 0, last = 0;  // floats of the unit, from a multiple of 1024
  BoundValues value = {};
  float* grad = nullptr;

  std::int64_t size() const { return last - first; }
};

struct Unit {
  std::string name;  // "embed", "layers.3", "head"
  std::size_t number = 0;
  std::vector<Parameter> parameters;
  std::vector<UnitPart> parts = std::vector<UnitPart>(1);  // the first one may be empty
  std::int64_t size = 0;                                   // floats, parameters at multiples of 256
  BoundValues value;                                       // owned by the store; null where a strategy binds the parts'
  float* widened = nullptr;  // beside values in bfloat16, what kernels read in float32: vectors
  float* grad = nullptr;     // owned and rebound by the distribution strategy; null, and so are the parts': not wanted
};

/// Where a layer finds a parameter: the pointers of unit and part may be rebound, so they are looked up at use.
struct ParameterRef {
  Unit* unit = nullptr;
  std::size_t index = 0;  // in the unit
  std::int64_t offset = 0, rows = 0, cols = 0;
  std::size_t part = 0;  // where it begins; 0: among what is small

  explicit operator bool() const { return unit != nullptr; }
  /// In float32; of a store in bfloat16, vectors alone.
  Mat value() const;
  /// As it is stored: what products read.
  kernels::Weight weight() const;
  /// The gradient, to be added to; empty when no gradients are wanted.
  Mat grad() const;
  /// The gradient for a kernel that writes every element: the first write of a step sets it instead of adding.
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

/// Zeroes the gradient of a part outside the trained elements of its parameters.
void mask_gradient(const Unit& unit, std::size_t part);

/// Owns the values of all trainable parameters. Units are declared first, then allocate() fixes the addresses.
class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(ParameterStore&&) = default;
  ParameterStore& operator=(ParameterStore&&) = default;

  /// Number of units is fixed at the start, so that references to them stay valid.
  void create_units(std::vector<std::string> names);
  /// `part_rows` > 0: in parts of its own, each of so many rows (the last may have fewer); such parameters come after
  /// a unit's others.
  ParameterRef add(std::size_t unit, std::string name, std::vector<std::int64_t> shape, bool decay,
                   std::int64_t part_rows = 0);
  /// Values in bfloat16 from allocate() on, for an optimizer that rounds them so (optim/bf16_weights.h). Products
  /// read matrices as they are; norms, biases and the like have a copy in float32 beside them, which widen() renews.
  bool bf16_values = false;
  std::int64_t value_width() const { return bf16_values ? sizeof(bf16) : sizeof(float); }
  /// Zeroed values for all units; `values` false: a strategy binds its own.
  void allocate(bool values = true);
  /// Of all values, and of the copies beside them.
  std::int64_t value_bytes() const { return floats() * value_width() + widened_bytes(); }
  std::int64_t widened_bytes() const;
  /// After a unit's small values, which have to be bound, were changed.
  void widen(std::size_t unit);
  void widen();
  /// Memory as values of this store, to be bound by a unit or a part.
  BoundValues values_at(std::byte* memory) const { return {memory, bf16_values ? DType::bf16 : DType::f32}; }
  /// A copy of the units without values and gradients.
  ParameterStore outline() const;
  /// Writes elements [first, last) of a parameter's starting values, for a strategy that never holds it whole. Set
  /// where allocate() is left to that strategy.
  std::function<void(const Parameter& parameter, std::int64_t first, std::int64_t last, float* out)> start;
  /// The first and the last unit are never needed at the same time, and the first unit's values in forward only, so
  /// they may share a buffer. False where the head reads the embedding.
  bool embedding_and_head_share_buffer = false;
  /// Whether the strategy binds values, or gradients, part by part instead of whole.
  bool values_in_parts = false, gradients_in_parts = false;
  /// Frees the values: a strategy that shards them binds memory of its own.
  void release();

  /// Begins a new gradient without zeroing it: the first write of each parameter sets it (ParameterRef::whole_grad).
  void begin_gradient();
  /// Zeroes those parts of a unit's gradient that this step did not write, and the padding between its parameters.
  void end_gradient(std::size_t unit);

  std::vector<Unit>& units() { return units_; }
  const std::vector<Unit>& units() const { return units_; }
  /// Trainable floats (padding not counted).
  std::int64_t trainable() const;
  /// Floats of all units, padding counted.
  std::int64_t floats() const;

 private:
  std::vector<Unit> units_;
  Arena values_, widened_;
};

/// Sets elements [first, first + values.size()) of a parameter of a unit whose values are bound whole.
void set_values(const Unit& unit, const Parameter& p, std::int64_t first, std::span<const float> values);
/// out (n) = the same in float32.
void read_values(const Unit& unit, const Parameter& p, std::int64_t first, std::span<float> out);

}  // namespace dml
