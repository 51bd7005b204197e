// Beam search: of all texts that a step can reach, the `beams` likeliest are continued. A text that ends with a stop
// token is finished; its score is log p(text) / tokensᵖ, tokens counting the stop token, p the length penalty. The
// search ends when that many are finished and no living one could beat the worst of them by ending now, or at the
// longest length.
//
// As in Hugging Face's generate with early_stopping=False.
#pragma once

#include "generate/generator.h"

namespace dml {

/// The best text after the prompt; options.beams of them are kept on the way. Nothing is drawn.
Generated beam_search(CausalLm& model, const std::vector<Token>& prompt, const GenerationOptions& options,
                      GenerationSpeed& speed);

}  // namespace dml
