// Loading with the stages still in reach; everybody else uses load_tokenizer().
#pragma once

#include <memory>
#include <string>

#include "tokenizer/pipeline.h"
#include "tokenizer/settings.h"

namespace dml {

/// How the LlamaTokenizer of transformers 5 splits texts, whatever the file says: no normalizer, and a Metaspace that
/// puts no second mark before a text that begins with a space. Source: models/llama/tokenization_llama.py.
Json metaspace_splitter(const TokenizerSettings& settings);

std::unique_ptr<Pipeline> load_pipeline(const std::string& directory, const TokenizerOverrides& overrides = {});

}  // namespace dml
