// A GGUF file seen as a Hugging Face model: its config, its tokenizer, and its tensors under the names and in the order
// of rows that the family has there. What lies in the file as the model needs it is used where it is mapped, quantised
// or not; rows of q and k that llama.cpp has in another order are copied, quantised as they are.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/model_files.h"
#include "core/json.h"
#include "exchange/gguf_file.h"
#include "exchange/gguf_vocabulary.h"
#include "model/spec.h"

namespace dml {

/// config.json, in the family's own keys. UserError for an architecture that dml does not have, and for settings of it
/// that Hugging Face's model has not.
Json gguf_config(const GgufFile& file);

/// The model's weights. UserError for a type that dml does not read.
ModelFiles gguf_weights(std::shared_ptr<const GgufFile> file, const ModelSpec& spec);

/// config.json, generation_config.json and the tokenizer, into a folder that exists.
void write_gguf_companions(const GgufFile& file, const std::string& folder);

/// From "tokenizer.…". UserError where lists are missing, of different lengths, or of a kind that dml does not have.
GgufVocabulary vocabulary_of(const GgufFile& file);
/// As files of Hugging Face: tokenizer.json ("gpt2") or tokenizer.model ("llama"), and tokenizer_config.json.
void write_tokenizer(const GgufVocabulary& vocabulary, const std::string& folder);

}  // namespace dml
