// A Modelfile beside a GGUF file: what ollama needs to run it (ollama's docs, modelfile.mdx).
#pragma once

#include <string>

#include "exchange/gguf_file.h"

namespace dml {

/// FROM, the chat template in ollama's language where the file's is one of the usual ones, a stop for every token that
/// ends an answer, and the sampling of generation_config.json in `directory`. Without TEMPLATE, ollama takes the file's
/// own template or none.
std::string ollama_modelfile(const GgufFile& file, const std::string& directory);

/// Writes "Modelfile" into the folder of a GGUF file, unless one that dml has not written is there. Says what to do
/// with it.
void write_modelfile(const std::string& gguf, const std::string& directory);

}  // namespace dml
