// Rows: what a plug-in adds to the tables of dml. A row owns everything about its name: other spellings, arguments with
// their defaults and help, and how the thing is made. Names of rows are values of recipes.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dml::plugin {

/// Keeps the order of keys.
using Json = nlohmann::ordered_json;

/// A setting of a row. Its type is its default's.
struct Argument {
  std::string name, help;
  Json fallback;
  double below = 1e300;                 // numbers must be in [0, below)
  std::vector<std::string> words = {};  // texts: the only ones allowed
  /// Optimizers: the key of the recipe that gives it where optim_args do not: weight_decay, adam_beta1, adam_beta2,
  /// adam_beta3, adam_epsilon or adam_epsilon2.
  std::string setting = {};
};

template <class Thing>
struct Row {
  std::string name, help;
  /// `arguments` has every argument of the row, checked, and what the header of `Thing` adds to them. What it throws is
  /// shown to the user as the plug-in's error. Called once on every rank; more than once in commands that build several
  /// models.
  std::function<std::unique_ptr<Thing>(const Json& arguments)> make;
  std::vector<Argument> arguments = {};
  std::vector<std::string> spellings = {};  // further names
  std::string notice = {};                  // told where a recipe names an optimizer
};

class AnswerCheck;
class Evaluator;
class Objective;
class Observer;
class Optimizer;
class PromptFormat;
class Schedule;
class Strategy;

/// The tables of the program. A name that is taken is refused: the plug-in is not loaded, and the error says who has
/// it.
class Registry {
 public:
  virtual void add(Row<PromptFormat> row) = 0;  // datasets.type
  virtual void add(Row<Optimizer> row) = 0;     // optimizer; arguments from optim_args
  virtual void add(Row<Schedule> row) = 0;      // lr_scheduler; arguments from lr_scheduler_kwargs
  virtual void add(Row<Objective> row) = 0;     // objective; arguments from plugin_args.NAME, as for all that follow
  virtual void add(Row<AnswerCheck> row) = 0;   // evals.checks; arguments are the options of the check
  virtual void add(Row<Evaluator> row) = 0;     // runs at every evaluation of a recipe that lists the plug-in
  virtual void add(Row<Observer> row) = 0;      // watches every run of a recipe that lists the plug-in
  virtual void add(Row<Strategy> row) = 0;      // distribution

 protected:
  ~Registry() = default;
};

}  // namespace dml::plugin
