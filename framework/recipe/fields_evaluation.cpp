// Fields of the section about the user's evaluations.
#include "recipe/codecs.h"

namespace dml::recipe {

template <>
const Table& table<EvalEntry>() {
  using S = EvalEntry;
  static const Table rows = [] {
    Table t("evals: one entry", "What the model is asked, and how its answers are checked.");
    t.defaults<S>();
    t.add("name", &S::name, "Name of the evaluation; its metrics are eval_NAME_METRIC.",
          {.example = "capitals", .required = true});
    t.add("path", &S::path,
          "JSON lines: {prompt, expected} for answers, {prompt, choices, answer} for choice (answer counts from 0), "
          "{text} for perplexity; prompts as in `dml infer --input`.",
          {.example = "evals/capitals.jsonl", .unset = "see prompts", .path = true});
    t.add("prompts", &S::prompts, "The rows themselves, in place of a path.",
          {.example = "[{prompt: What is the capital of France?, expected: Paris}]", .unset = "see path"});
    t.add("raw", &S::raw, "Use prompts as they are, without a template.", {.example = "true"});
    t.add("every", &S::every, "Training steps between two runs of this evaluation.",
          {.min = 1, .example = "500", .unset = "at every evaluation"});
    t.add("max_new_tokens", &S::max_new_tokens, "Longest answer in tokens. Answers are generated greedily.",
          {.min = 1, .max = 1 << 20, .example = "64"});
    t.add("checks", &S::checks,
          "Checks: exact, exact_match, contains, {regex: PATTERN}, json_valid, {json_schema: FILE or schema}, "
          "{length: MOST}, {command: PROGRAM, timeout: SECONDS, name: NAME}, choice, continuation, perplexity. "
          "docs/evaluate.md describes them.",
          {.example = "[contains, {regex: '^[A-Z]'}]", .unset = "those of the task"});
    t.add("task", &S::task,
          "A task of lm-evaluation-harness: its YAML says prompts, choices and metrics; path, if it is set, is in "
          "place of the task's own rows. docs/evaluate.md says what is supported.",
          {.example = "recipes/evals/arc_easy.yml", .unset = "see path", .path = true});
    t.add("fail_below", &S::fail_below, "Lowest value of a metric with which `dml evaluate` ends with exit code 0.",
          {.example = "{contains: 0.9}", .unset = "no limit"});
    return t;
  }();
  return rows;
}

Section evaluation_section() {
  using S = EvalSection;
  Table t("Custom evaluations", "Questions to the model, at every evaluation of training and in `dml evaluate`.");
  t.defaults<S>();
  t.add("evals", &S::evals, "Evaluations besides the validation loss.",
        {.example = "[{name: capitals, path: capitals.jsonl, checks: [contains]}]"});
  return {std::move(t), [](Recipe& r) -> void* { return &r.evaluation; }};
}

}  // namespace dml::recipe
