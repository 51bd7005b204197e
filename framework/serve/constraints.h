// Constraints of requests (response_format, guided_…, tools), compiled once.
#pragma once

#include <functional>
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
  using Make = std::function<std::unique_ptr<Automaton>()>;
  /// The constraint that `make` compiles, or the cached one; equal strings `what` stand for equal constraints. ApiError
  /// naming `param` when it is invalid or not supported.
  std::shared_ptr<TokenConstraint> get(const AnswerFormat& format, const std::string& what, const Make& make,
                                       bool continued, const std::string& param);
  /// What `make` compiles. ApiError as above.
  static std::unique_ptr<Automaton> compiled(const Make& make, const std::string& param);
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
