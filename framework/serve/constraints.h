// Constraints of requests (response_format, guided_…, tools), compiled once.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "assembly/answer_format.h"
#include "constraint/token_mask.h"

namespace dml {

/// Constraints compiled before, so that a schema that comes again costs nothing. From any thread.
class Constraints {
 public:
  /// ApiError naming `param` where it is wrong or not supported.
  std::shared_ptr<TokenConstraint> get(const AnswerFormat& format, const std::string& kind, const std::string& text,
                                       bool continued, const std::string& param);
  /// Gives back what is large and not in use.
  void rest();

 private:
  struct Known {
    std::string key;
    std::shared_ptr<TokenConstraint> constraint;
  };
  void forget_old();
  std::mutex mutex_;
  std::list<Known> known_;  // the last used first
};

}  // namespace dml
