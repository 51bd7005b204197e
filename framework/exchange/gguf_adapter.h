// Writes a LoRA adapter as a GGUF file in the form that llama.cpp loads (its src/llama-adapter.cpp): A and B of every
// matrix under the names and in the row order of the base's file, and a single alpha.
#pragma once

#include <string>

#include "checkpoint/adapter_io.h"
#include "exchange/gguf_mix.h"

namespace dml {

/// `type`: f32, f16 or bf16. `source`: prefix of errors. UserError for what such a file cannot hold: DoRA, saved
/// modules, biases, trained rows, an initialization that changed the base, and the embedding of a tied model.
void write_gguf_adapter(const std::string& path, const Adapter& adapter, const ModelSpec& spec,
                        const GgufFileType& type, const std::string& source);

}  // namespace dml
