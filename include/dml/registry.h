// Rows, which a plug-in adds to the registries of dml. A row holds everything about a name that recipes can use: its
// aliases, its arguments with defaults and help, and the factory.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dml::plugin {

/// JSON that keeps the order of keys.
using Json = nlohmann::ordered_json;

/// An argument of a row. Its type is that of its default, `fallback`: after 1 only whole numbers are valid, after 1.0
/// any number.
struct Argument {
  std::string name, help;
  Json fallback;
  double below = 1e300;                 // upper bound of numbers, which must be in [0, below)
  std::vector<std::string> words = {};  // allowed values of a text; empty: any
  /// Optimizers: the recipe's key whose value it takes if optim_args does not set it: weight_decay, adam_beta1,
  /// adam_beta2, adam_beta3, adam_epsilon or adam_epsilon2.
  std::string setting = {};
};

template <class Thing>
struct Row {
  std::string name, help;
  /// `arguments` holds every argument of the row, checked, and those that the header of `Thing` adds. An exception is
  /// reported as the plug-in's error. Called once on every rank, or several times in commands that build several
  /// models.
  std::function<std::unique_ptr<Thing>(const Json& arguments)> make;
  std::vector<Argument> arguments = {};
  std::vector<std::string> spellings = {};  // aliases
  std::string notice = {};                  // optimizers: printed if a recipe names it
};

class AnswerCheck;
class Evaluator;
class Objective;
class Observer;
class Optimizer;
class PromptFormat;
class Schedule;
class Strategy;

/// The registries of the program. If a name is taken, the plug-in is not loaded, and the error names the owner.
class Registry {
 public:
  virtual void add(Row<PromptFormat> row) = 0;  // datasets.type
  virtual void add(Row<Optimizer> row) = 0;     // optimizer; arguments from optim_args
  virtual void add(Row<Schedule> row) = 0;      // lr_scheduler; arguments from lr_scheduler_kwargs
  virtual void add(Row<Objective> row) = 0;     // objective; arguments from plugin_args.NAME, as for all below
  virtual void add(Row<AnswerCheck> row) = 0;   // evals.checks; arguments from the options of the check
  virtual void add(Row<Evaluator> row) = 0;     // runs at every evaluation if the recipe lists the plug-in
  virtual void add(Row<Observer> row) = 0;      // observes every run whose recipe lists the plug-in
  virtual void add(Row<Strategy> row) = 0;      // distribution

 protected:
  ~Registry() = default;
};

}  // namespace dml::plugin
