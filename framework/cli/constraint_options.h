// The options that constrain generated text, shared by several commands.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "constraint/automaton.h"

namespace dml {

struct ConstraintOptions {
  std::optional<std::string> schema, regex, grammar;
  std::vector<std::string> choices;

  bool any() const { return schema || regex || grammar || !choices.empty(); }
  /// Adds --schema, --regex, --grammar and --choice.
  void add_to(Options& options);
  /// The constraint; null if none was given. UserError when more than one was given, or it is not supported.
  std::unique_ptr<Automaton> automaton(JsonSpace space) const;
};

}  // namespace dml
