// Writes a Modelfile next to a GGUF file, with which ollama can run it (ollama's docs, modelfile.mdx).
#pragma once

#include <string>

#include "exchange/gguf_file.h"

namespace dml {

/// The text of the Modelfile: FROM, TEMPLATE if the chat template can be expressed as one (ollama_template.h), a stop
/// for every text that ends an answer, and the sampling settings of generation_config.json in `directory`. Without
/// TEMPLATE, ollama uses the file's own chat template if it recognizes it.
std::string ollama_modelfile(const GgufFile& file, const std::string& directory);

/// Writes "Modelfile" into the folder of a GGUF file unless one exists that dml did not write, and logs how to use it.
void write_modelfile(const std::string& gguf, const std::string& directory);

}  // namespace dml
