// recipes/DATASETS.md: every format with a row, the text it becomes and what of it is trained, made by the very code
// that prepares data. A test keeps the page current.
#pragma once

#include <string>

#include "prompt/strategy.h"

namespace dml {

/// The text of an example with ⟦ ⟧ around what is trained, ‹bos› and ‹eos› where the tokenizer's own stand.
std::string show_mask(const Rendered& example);

std::string dataset_page();

/// The row that the page shows for a `type`, as JSON.
std::string sample_row(const std::string& type);

}  // namespace dml
