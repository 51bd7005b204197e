// Hooks that the model calls around its units, for strategies that shard parameters or reduce gradients.
//
// The calls of a pass and their order do not depend on the micro-batch, which may even be empty; so strategies can
// communicate in them.
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

  /// Hooks for the parts of a unit after the first (nn/parameter.h), called between the hooks of the unit.
  /// before_values: the part is about to be read; `direction` is 1 if the following part is needed next, −1 if the
  /// preceding one. before_part_gradient: its gradient is about to be added to. after_part_gradient: its gradient is
  /// final.
  virtual void before_values(std::size_t /*unit*/, std::size_t /*part*/, int /*direction*/) {}
  virtual void before_part_gradient(std::size_t /*unit*/, std::size_t /*part*/) {}
  virtual void after_part_gradient(std::size_t /*unit*/, std::size_t /*part*/) {}
};

}  // namespace dml
