// Samples during training: the model answers a few prompts of the validation split; the expected answers are shown
// beside its own.
#pragma once

#include <string>
#include <vector>

#include "data/examples.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/evaluator.h"

namespace dml {

/// Uses the first num_generation_samples examples. The prompt is the text before the first trained token or, if a whole
/// example is trained, its first generation_prompt_ratio. Answers end at the context length and at the recipe's stop
/// tokens: eot_tokens, the tokenizer's EOS, the model's.
class SampleTexts : public Evaluator {
 public:
  /// All arguments outlive this object.
  SampleTexts(const Tokenizer& tokenizer, const Examples& examples, const Recipe& recipe)
      : tokenizer_(tokenizer), examples_(examples), section_(recipe.generation), templates_(recipe.templates) {}

  std::vector<Metric> metrics() const override { return {}; }
  bool due(const EvaluationMoment& moment) const override { return moment.step == 0 || moment.scheduled; }
  void evaluate(const EvaluationContext& context, EvaluationResult& result) override;
  Memory memory(CausalLm& model, Objective& objective, int rank) override;

 private:
  std::vector<SampleMetrics> generate(CausalLm& model, std::int64_t step) const;

  const Tokenizer& tokenizer_;
  Examples examples_;
  const GenerationSection& section_;
  const TemplateSection& templates_;
};

/// One line for a terminal: the end of the prompt and the beginning of the answer.
std::string sample_line(const SampleMetrics& sample);

}  // namespace dml
