// Loading a tokenizer with access to its stages; other folders use load_tokenizer().
#pragma once

#include <memory>
#include <string>

#include "tokenizer/pipeline.h"
#include "tokenizer/settings.h"

namespace dml {

/// The pre-tokenizer of transformers 5's LlamaTokenizer, which ignores the file's: no normalizer, and a Metaspace that
/// adds no second mark to a text that begins with a space. Source: models/llama/tokenization_llama.py.
Json metaspace_splitter(const TokenizerSettings& settings);

std::unique_ptr<Pipeline> load_pipeline(const std::string& directory, const TokenizerOverrides& overrides = {});

}  // namespace dml
