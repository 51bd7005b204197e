// Samples during training: the model continues a few examples of the validation split, beside what they really say.
#pragma once

#include <string>
#include <vector>

#include "data/examples.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/evaluator.h"

namespace dml {

/// The first num_generation_samples examples. A prompt is what stands before the first trained token, or, where all of
/// an example is trained, generation_prompt_ratio of it. Answers end at the context's end and at every stop token of
/// the recipe: eot_tokens, the tokenizer's eos, the model's.
class SampleTexts : public Evaluator {
 public:
  /// All of it outlives this.
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
