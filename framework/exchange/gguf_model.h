// Reads a GGUF file as a Hugging Face model: its config, its tokenizer, and its tensors under Hugging Face's names and
// row order. Tensors that need no change are used in place, quantized or not; rows of q and k, which llama.cpp stores
// in another order, are copied without requantizing.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/model_files.h"
#include "core/json.h"
#include "exchange/gguf_file.h"
#include "exchange/gguf_vocabulary.h"
#include "model/spec.h"

namespace dml {

/// config.json with the family's own keys. UserError for an architecture that dml does not support, and for settings
/// that Hugging Face's model lacks.
Json gguf_config(const GgufFile& file);

/// The model's weights. UserError for a type that dml does not read.
ModelFiles gguf_weights(std::shared_ptr<const GgufFile> file, const ModelSpec& spec);

/// Writes config.json, generation_config.json and the tokenizer into an existing folder.
void write_gguf_companions(const GgufFile& file, const std::string& folder);

/// Reads the keys "tokenizer.…". UserError when lists are missing or differ in length, or for an unsupported kind of
/// tokenizer.
GgufVocabulary vocabulary_of(const GgufFile& file);
/// Writes tokenizer.json ("gpt2") or tokenizer.model ("llama"), and tokenizer_config.json.
void write_tokenizer(const GgufVocabulary& vocabulary, const std::string& folder);

}  // namespace dml
