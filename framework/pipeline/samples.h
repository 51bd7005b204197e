// Samples during training: the model continues a few examples of the validation split, beside what they really say.
#pragma once

#include <string>
#include <vector>

#include "data/examples.h"
#include "generate/generator.h"
#include "model/causal_lm.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct Sample {
  std::string prompt, expected, text;
};

/// The first num_generation_samples examples. A prompt is what stands before the first trained token, or, where all of an
/// example is trained, generation_prompt_ratio of it. Answers end at the context's end and at every stop token of the
/// recipe: eot_tokens, the tokenizer's eos, the model's.
std::vector<Sample> generate_samples(CausalLm& model, const Tokenizer& tokenizer, const Examples& examples,
                                     const GenerationSection& section, const TemplateSection& templates);
/// Memory that generate_samples() needs.
Generator::Memory samples_memory(CausalLm& model, const Examples& examples, const GenerationSection& section);

/// One line for a terminal: the end of the prompt and the beginning of the answer.
std::string sample_line(const Sample& sample);

}  // namespace dml
