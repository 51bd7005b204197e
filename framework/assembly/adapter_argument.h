// An adapter as --adapter names it.
#pragma once

#include <optional>
#include <string>

namespace dml {

/// DIR or DIR=WEIGHT, the form in which several adapters are added up (checkpoint/adapter_sum.h). DIR may contain '=':
/// a text that is itself the name of a file or directory has no weight, else the last '=' stands before it.
struct AdapterArgument {
  explicit AdapterArgument(const std::string& text);

  /// 1 if none was given. UserError when it is not a number other than 0, or is above a million.
  double weight() const;

  std::string directory;
  std::optional<std::string> given_weight = {};  // as it was written
};

}  // namespace dml
