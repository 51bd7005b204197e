// Constraints of requests (response_format, guided_…, tools), compiled once.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "assembly/answer_format.h"
#include "constraint/token_mask.h"

namespace dml {

/// A least-recently-used cache of compiled constraints. Thread-safe.
class Constraints {
 public:
  /// Compiles a constraint, or returns the cached one. ApiError naming `param` when it is invalid or not supported.
  std::shared_ptr<TokenConstraint> get(const AnswerFormat& format, const std::string& kind, const std::string& text,
                                       bool continued, const std::string& param);
  /// Frees large automata that no request uses.
  void rest();

 private:
  struct Known {
    std::string key;
    std::shared_ptr<TokenConstraint> constraint;
  };
  void forget_old();
  std::mutex mutex_;
  std::list<Known> known_;  // most recently used first
};

}  // namespace dml
