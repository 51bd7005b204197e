// The values of an optimizer's arguments, from a recipe's settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "optim/optimizer.h"

namespace dml {

class Arguments {
 public:
  /// Every argument is read from optim_args, else from its setting (Argument::from), else it has its default. `betas:
  /// [b1, b2]` and `eps: [e1, e2]` set several at once. Throws UserError with a line for every argument that is
  /// unknown, of the wrong type, or out of range. `key`: the recipe's key of settings.args, for errors.
  Arguments(const OptimizerSettings& settings, const std::vector<Argument>& known,
            const std::string& key = "optim_args");

  double number(std::string_view name) const;
  float real(std::string_view name) const { return static_cast<float>(number(name)); }
  std::int64_t whole_number(std::string_view name) const { return static_cast<std::int64_t>(number(name)); }
  bool flag(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  /// All of them, by name.
  Json all() const;

 private:
  struct Value {
    std::string name;
    Json value;
  };
  const Value& at(std::string_view name) const;
  std::vector<Value> values_;
};

/// The arguments weight_decay, beta1, beta2 and eps with these defaults.
std::vector<Argument> adam_arguments(double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-8);
Argument weight_decay_argument();
/// The concatenation of both lists.
std::vector<Argument> joined(std::vector<Argument> first, const std::vector<Argument>& second);

}  // namespace dml
