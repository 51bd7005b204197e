// What the model tells whoever shards or reduces its units. nn knows nothing about MPI.
#pragma once

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
};

}  // namespace dml
