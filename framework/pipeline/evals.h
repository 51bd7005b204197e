// dml evaluate with evaluations of one's own: the base and adapters side by side, as a table or JSON.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "evaluate/eval_run.h"
#include "recipe/recipe.h"

namespace dml {

struct EvaluatedModel {
  std::string name;  // "base", an adapter's directory …
  std::vector<EvalResult> results;
};

struct EvalsOptions {
  std::optional<std::string> base_model;  // instead of the recipe's; then adapters are only those given
  std::vector<std::string> adapters;
};

struct EvalsOutcome {
  std::vector<EvaluatedModel> models;
  std::vector<std::string> below;  // metrics below fail_below, of the last model
};

/// A collective; the same on every rank.
EvalsOutcome run_evals(const Recipe& recipe, const EvalsOptions& options, Comm& comm);

/// {"models": [{"name": …, "evals": {NAME: {"n": rows, METRIC: value, "METRIC_stderr": …}}}]}
Json evals_json(const EvalsOutcome& outcome);
/// One table for every evaluation, a row for every metric and a column for every model.
std::string evals_markdown(const EvalsOutcome& outcome);

}  // namespace dml
