// A limit on the work that a constraint may do for one token of an answer. One thread computes the tokens of all
// answers, so a constraint that takes long fails its own request instead of stopping the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace dml {

class WorkLimit {
 public:
  /// What may be spent from now on, in steps of about 0.05 µs; without a call, any amount.
  void limit(std::size_t most) { left_ = most; }
  /// UserError when less is left.
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
