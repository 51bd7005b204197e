// The settings of an optimizer, read by the list of arguments in its row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "optim/optimizer.h"

namespace dml {

class Arguments {
 public:
  /// Takes every argument from optim_args, else from the setting it is linked to, else its default. UserError with a
  /// line for every argument that is not known, of a wrong type, or out of range. `betas: [b1, b2]` and `eps: [e1, e2]`
  /// stand for several at once. `key`: the recipe's setting that holds settings.args, for errors.
  Arguments(const OptimizerSettings& settings, const std::vector<Argument>& known,
            const std::string& key = "optim_args");

  double number(std::string_view name) const;
  float real(std::string_view name) const { return static_cast<float>(number(name)); }
  std::int64_t whole_number(std::string_view name) const { return static_cast<std::int64_t>(number(name)); }
  bool flag(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  /// Whether optim_args or its setting gave it.
  bool given(std::string_view name) const;
  /// All of them, by name.
  Json all() const;

 private:
  struct Value {
    std::string name;
    Json value;
    bool given = false;
  };
  const Value& at(std::string_view name) const;
  std::vector<Value> values_;
};

/// weight_decay, β1, β2 and ε with these defaults.
std::vector<Argument> adam_arguments(double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-8);
Argument weight_decay_argument();
/// One list after the other.
std::vector<Argument> joined(std::vector<Argument> first, const std::vector<Argument>& second);

}  // namespace dml
