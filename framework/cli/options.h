// The words behind a command: flags and options of the command, positional words, and (for commands that read a recipe)
// overrides of recipe keys. Unknown options are errors with the nearest name; nothing is passed on in silence.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace dml {

class Options {
 public:
  /// `usage`: the line shown with an error, without "dml ".
  Options(std::string command, std::string usage, std::vector<std::string> examples);
  ~Options();

  void positional(const std::string& name, std::string& value, const std::string& help, bool required = true);
  void flag(const std::string& name, bool& value, const std::string& help);
  void text(const std::string& name, std::optional<std::string>& value, const std::string& help);
  /// May be given several times.
  void texts(const std::string& name, std::vector<std::string>& values, const std::string& help);
  void integer(const std::string& name, std::optional<std::int64_t>& value, const std::string& help);
  void number(const std::string& name, std::optional<double>& value, const std::string& help);
  /// Whatever else looks like an option is a recipe key.
  void take_overrides(std::vector<Override>& overrides);

  /// Throws UserError.
  void parse(const std::vector<std::string>& words);
  /// The help page.
  std::string page() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dml
