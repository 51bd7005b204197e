// dml evaluate with custom evaluations: the base and adapters compared, as a table or JSON.
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
  std::optional<std::string> base_model;  // replaces the recipe's; only the given adapters are then evaluated
  std::vector<std::string> adapters;
};

struct EvalsOutcome {
  std::vector<EvaluatedModel> models;
  std::vector<std::string> below;  // metrics of the last model that are below fail_below
};

/// Runs the recipe's evaluations. A collective; every rank gets the same outcome.
EvalsOutcome run_evals(const Recipe& recipe, const EvalsOptions& options, Comm& comm);

/// {"models": [{"name": …, "evals": {NAME: {"n": rows, METRIC: value, "METRIC_stderr": …}}}]}
Json evals_json(const EvalsOutcome& outcome);
/// One table per evaluation, with a row per metric and a column per model.
std::string evals_markdown(const EvalsOutcome& outcome);

}  // namespace dml
