// What the model tells whoever shards or reduces its units. nn knows nothing about MPI.
//
// The calls of a pass, and their order, are the same whatever is in the micro-batch: also where nothing is.
#pragma once

#include <cstddef>

namespace dml {

class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_forward(int /*unit*/) {}
  virtual void after_forward(int /*unit*/) {}
  virtual void before_backward(int /*unit*/) {}
  /// The unit's gradient is about to be added to; its values are not needed for that.
  virtual void before_gradient(int /*unit*/) {}
  /// The unit's gradient of this micro-batch is final.
  virtual void after_backward(int /*unit*/) {}

  /// The same for the parts of a unit behind its first (nn/parameter.h), between the calls for the unit: which is about
  /// to be read, and whether the next one is the one behind it (1) or in front (−1); its gradient is about to be added
  /// to; that gradient is final.
  virtual void before_values(std::size_t /*unit*/, std::size_t /*part*/, int /*direction*/) {}
  virtual void before_part_gradient(std::size_t /*unit*/, std::size_t /*part*/) {}
  virtual void after_part_gradient(std::size_t /*unit*/, std::size_t /*part*/) {}
};

}  // namespace dml
