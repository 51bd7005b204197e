// Hooks that the model calls around its units, for strategies that shard or reduce them. nn knows nothing about MPI.
//
// The calls of a pass and their order do not depend on the micro-batch, which may be empty.
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

  /// For the parts of a unit after its first (nn/parameter.h), called between the hooks of the unit. before_values: the
  /// part is about to be read; direction 1 if the following part is next, −1 if the preceding one.
  /// before_part_gradient: its gradient is about to be added to. after_part_gradient: that gradient is final.
  virtual void before_values(std::size_t /*unit*/, std::size_t /*part*/, int /*direction*/) {}
  virtual void before_part_gradient(std::size_t /*unit*/, std::size_t /*part*/) {}
  virtual void after_part_gradient(std::size_t /*unit*/, std::size_t /*part*/) {}
};

}  // namespace dml
