// Text while training goes on: the model continues a few examples, beside what they really say.
#pragma once

#include <string>
#include <vector>

#include "data/examples.h"
#include "model/causal_lm.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct Sample {
  std::string prompt, expected, text;
};

/// The first num_generation_samples examples. A prompt is what stands before the first learned token, or, where all of an
/// example is learned, generation_prompt_ratio of it.
std::vector<Sample> generate_samples(CausalLm& model, const Tokenizer& tokenizer, const Examples& examples,
                                     const GenerationSection& section);

}  // namespace dml
