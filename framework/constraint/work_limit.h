// A limit on the work that a constraint may do for one token of an answer. One thread computes the tokens of all
// answers, so a constraint that takes long fails its own request instead of stopping the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace dml {

class WorkLimit {
 public:
  /// Sets the number of steps, of about 0.05 µs each, that may be spent from now on. Without a call there is no limit.
  void limit(std::size_t most) { left_ = most; }
  /// Throws UserError when fewer steps are left.
  void spend(std::size_t steps) {
    if (steps > left_) {
      left_ = 0;
      throw UserError("the constraint is too ambiguous: finding out what may come next takes too long");
    }
    left_ -= steps;
  }

 private:
  std::size_t left_ = SIZE_MAX;
};

}  // namespace dml
