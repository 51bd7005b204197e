// Fields of the sections about answers: generation, and the user's evaluations.
#include "core/sampling_limits.h"
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
          "{length: MAX}, {command: PROGRAM, timeout: SECONDS, name: NAME}, choice, continuation, perplexity. "
          "docs/evaluate.md describes them.",
          {.example = "[contains, {regex: '^[A-Z]'}]", .unset = "those of the task"});
    t.add("task", &S::task,
          "A task of lm-evaluation-harness: its YAML says prompts, choices and metrics; path, if it is set, is in "
          "place of the task's own rows. docs/evaluate.md says what is supported.",
          {.example = "recipes/evals/arc_easy.yml", .unset = "see path", .path = true});
    t.add("fail_below", &S::fail_below,
          "Minimum of each metric: if a metric of the last model is lower, `dml evaluate` ends with exit code 3.",
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
  return {std::move(t), &Recipe::evaluation};
}

Section generation_section() {
  using S = GenerationSection;
  using Limits = SamplingLimits;
  Table t("Generation",
          "Defaults of `dml infer`, and samples during training. A key that is not set has the "
          "value in the model's generation_config.json, or else the default below.");
  t.defaults<S>();
  t.add("generate_samples", &S::generate_samples, "Generate sample texts at each evaluation.", {.example = "true"});
  t.add("num_generation_samples", &S::num_generation_samples, "Number of samples.",
        {.min = 1, .max = 1000, .aliases = {"eval_table_size"}, .example = "3"});
  t.add("generation_prompt_ratio", &S::generation_prompt_ratio,
        "Fraction of an example to use as the prompt of a sample, where no turn marks the end of the prompt.",
        {.min = 0, .max = 1, .example = "0.5"});
  t.add("generation_max_new_tokens", &S::generation_max_new_tokens, "Maximum number of generated tokens.",
        {.min = 1, .max = 1 << 24, .aliases = {"eval_max_new_tokens"}, .example = "128", .unset = "256"});
  t.add("generation_do_sample", &S::generation_do_sample, "Sample from the distribution; false: greedy decoding.",
        {.example = "false", .unset = "true"});
  t.add("generation_temperature", &S::generation_temperature, "Sampling temperature.",
        {.min = Limits::kTemperature.low, .max = Limits::kTemperature.high, .example = "0.7", .unset = "0.7"});
  t.add("generation_top_k", &S::generation_top_k, "Sample from the k most likely tokens; 0 or -1: from all.",
        {.min = -1, .max = Limits::kTopK.high, .example = "40", .unset = "all"});
  t.add("generation_top_p", &S::generation_top_p,
        "Sample from the smallest set of tokens with this total probability (nucleus sampling).",
        {.min = 0, .max = 1, .above = true, .example = "0.95", .unset = "all"});
  t.add("generation_min_p", &S::generation_min_p, "Least probability of a token, relative to the most likely one.",
        {.min = 0, .max = 1, .example = "0.05", .unset = "all"});
  t.add(
      "generation_repetition_penalty", &S::generation_repetition_penalty, "Penalty on repeated tokens; 1: none.",
      {.min = Limits::kRepetitionPenalty.low, .max = Limits::kRepetitionPenalty.high, .example = "1.1", .unset = "1"});
  return {std::move(t), &Recipe::generation};
}

}  // namespace dml::recipe
