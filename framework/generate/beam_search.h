// Beam search: in each step the `beams` likeliest continuations are kept. A text that ends with a stop token is
// finished; its score is log p(text) / tokensᵖ, where tokens includes the stop token and p is the length penalty. The
// search ends when `beams` texts are finished and no running one could beat the worst of them by ending now, or at the
// maximum length.
//
// The method is that of Hugging Face's generate with early_stopping=False.
#pragma once

#include "generate/generator.h"

namespace dml {

/// Returns the best text after the prompt; options.beams beams are searched. Deterministic.
Generated beam_search(CausalLm& model, const std::vector<Token>& prompt, const GenerationOptions& options,
                      GenerationSpeed& speed);

}  // namespace dml
