// recipes/DATASETS.md: every format with a sample row, the resulting text and its trained parts, made by the code that
// prepares data. A test keeps the page current.
#pragma once

#include <string>

#include "prompt/strategy.h"

namespace dml {

/// The text of an example with ⟦ ⟧ around its trained parts, and ‹bos› and ‹eos› for the tokenizer's own tokens.
std::string show_mask(const Rendered& example);

std::string dataset_page();

/// The sample row of a `type`, as JSON.
std::string sample_row(const std::string& type);

}  // namespace dml
