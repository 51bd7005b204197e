#include "pipeline/evals.h"

#include <algorithm>
#include <map>
#include <memory>

#include "assembly/answering_model.h"
#include "assembly/base_model.h"
#include "assembly/eval_prompts.h"
#include "assembly/eval_tasks.h"
#include "assembly/job.h"
#include "assembly/model_location.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/log.h"
#include "pipeline/compared_models.h"

namespace dml {
namespace {

std::string value_text(const EvalValue& v) {
  if (v.name.ends_with("_failed")) return fmt::format("{:.0f}", v.value);
  return v.error > 0 ? fmt::format("{:.4f} ± {:.4f}", v.value, v.error) : fmt::format("{:.4f}", v.value);
}

// The evaluations in the tokens and the template of one or more of the compared models.
struct TokenizedEvals {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<AnsweringPrompts> prompts;
  std::vector<Eval> evals;

  // `own`: the recipe, if it describes the prompts; else null.
  void tokenize(const Recipe& recipe, const Recipe* own, const AnsweringModel& answering, const ComparedModel& model) {
    tokenizer = open_tokenizer(answering.section);
    const BaseModel base = open_compared(model, recipe, *tokenizer);
    if (!base.files) throw UserError("there are no weights to evaluate: base_model is not set");
    prompts = std::make_unique<AnsweringPrompts>(own, *tokenizer, base.spec, answering.generation_directory);
    each_task(eval_tasks(recipe.evaluation),
              [&](EvalTask task) { evals.emplace_back(std::move(task), *prompts, base.spec.max_positions); });
  }
};

}  // namespace

EvalsOutcome run_evals(const Recipe& recipe, const EvalsOptions& options, Comm& comm) {
  set_up_processor(recipe.train, comm);
  if (recipe.evaluation.evals.empty()) throw UserError("there are no evaluations: set 'evals'");
  const Recipe* own = options.base_model ? nullptr : &recipe;
  const AnsweringModel model = answering_model(own, options.base_model, options.adapters);
  if (!model.section.base_model.empty()) require_directory(model_directory(model.section.base_model));
  const std::vector<ComparedModel> models = compared_models(recipe, options.adapters, options.base_model);
  // A recipe describes the prompts of all its models; without one, each adapter brings its tokenizer and template.
  std::map<std::string, TokenizedEvals> tokenized;
  auto format_of = [&](const ComparedModel& m) { return own ? "" : m.vocabulary_of; };
  for (const ComparedModel& m : models) {
    const auto [at, fresh] = tokenized.try_emplace(format_of(m));
    if (!fresh) continue;
    const std::vector<std::string> adapters{m.vocabulary_of.empty() ? "none" : m.vocabulary_of};
    at->second.tokenize(recipe, own, own ? model : answering_model(own, options.base_model, adapters), m);
  }

  EvalsOutcome out;
  for (const ComparedModel& m : models) {
    TokenizedEvals& of_model = tokenized.at(format_of(m));
    BaseModel base = open_compared(m, recipe, *of_model.tokenizer);
    const auto built = make_inference_model(base, m.section.frozen_storage, m.adapters);
    out.below.clear();
    const bool given = options.base_model && &m == &models.front();
    EvaluatedModel& evaluated = out.models.emplace_back(EvaluatedModel{given ? "base" : m.name, {}});
    for (Eval& eval : of_model.evals) {
      evaluated.results.push_back(eval.run(*built, comm));
      for (const std::string& line : evaluated.results.back().problems) log_warning("{}", line);
      for (std::string& line : below_limits(eval.task(), evaluated.results.back()))
        out.below.push_back(std::move(line));
    }
  }
  return out;
}

Json evals_json(const EvalsOutcome& outcome) {
  Json models = Json::array();
  for (const EvaluatedModel& m : outcome.models) {
    Json evals = Json::object();
    for (const EvalResult& r : m.results) {
      Json& e = evals[r.name] = {{"n", r.rows}};
      for (const EvalValue& v : r.values) {
        e[v.name] = v.value;
        if (v.error > 0) e[v.name + "_stderr"] = v.error;
      }
    }
    models.push_back({{"name", m.name}, {"evals", std::move(evals)}});
  }
  return {{"models", std::move(models)}};
}

std::string evals_markdown(const EvalsOutcome& outcome) {
  std::string out = "| evaluation | n | metric |", line = "|---|--:|---|";
  for (const EvaluatedModel& m : outcome.models) out += fmt::format(" {} |", m.name), line += "--:|";
  out += "\n" + line + "\n";
  if (outcome.models.empty()) return out;
  for (std::size_t e = 0; e < outcome.models[0].results.size(); ++e) {
    std::vector<std::string> names;  // names of metrics of all models: a failed judge adds one
    for (const EvaluatedModel& m : outcome.models)
      for (const EvalValue& v : m.results[e].values)
        if (std::ranges::find(names, v.name) == names.end()) names.push_back(v.name);
    for (const std::string& name : names) {
      const EvalResult& first = outcome.models[0].results[e];
      out += fmt::format("| {} | {} | {} |", first.name, first.rows, name);
      for (const EvaluatedModel& m : outcome.models) {
        const EvalValue* v = m.results[e].find(name);
        out += fmt::format(" {} |", v ? value_text(*v) : "");
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace dml
