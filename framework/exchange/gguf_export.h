// Writes a model as one GGUF file, for llama.cpp and programs based on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "checkpoint/model_files.h"
#include "exchange/gguf_mix.h"
#include "model/spec.h"
#include "model/weight_names.h"

namespace dml {

/// Reads rows [first, first + count) of a weight as (out, in) float32. Thread-safe.
using WeightRows = std::function<void(const WeightName& weight, std::int64_t first, std::int64_t count, float* out)>;

/// Reads the rows of a model folder; `files` outlives it.
WeightRows rows_of_files(const ModelFiles& files);

struct GgufExport {
  std::string name;       // general.name
  std::string directory;  // folder of the tokenizer
  const ModelSpec& spec;
  const GgufFileType& type;
  WeightRows rows;
  std::function<void(const GgufTensor& tensor)> open{};  // called before the first rows of a tensor
  std::string source{};                                  // what messages name; "": the directory

  const std::string& named() const { return source.empty() ? directory : source; }
};

struct GgufReport {
  std::map<std::string, std::int64_t> tensors;  // number of tensors by type
  std::int64_t bytes = 0, weights = 0;
  std::int64_t other_blocks = 0;  // matrices whose rows are not a multiple of the type's block
};

/// Logs size and types of a written file.
void log_gguf(const std::string& path, const GgufFileType& type, const GgufReport& report);

/// Writes the file a few rows at a time, so memory does not grow with the model. UserError for what the file cannot
/// hold; no file is left then.
GgufReport write_gguf(const GgufExport& what, const std::string& path);

}  // namespace dml
