// A model as one GGUF file: for llama.cpp and everything built on it.
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

/// Rows [first, first + count) of a weight as (out, in) float32. Called from many threads.
using WeightRows = std::function<void(const WeightName& weight, std::int64_t first, std::int64_t count, float* out)>;

/// Those of a model folder; `files` outlives it.
WeightRows rows_of_files(const ModelFiles& files);

struct GgufExport {
  std::string name;       // general.name
  std::string directory;  // with the tokenizer, and what errors begin with
  const ModelSpec& spec;
  const GgufFileType& type;
  WeightRows rows;
  std::function<void(const GgufTensor& tensor)> open{};  // called before the first rows of a tensor
};

struct GgufReport {
  std::map<std::string, std::int64_t> tensors;  // by type
  std::int64_t bytes = 0, weights = 0;
  std::int64_t other_blocks = 0;  // matrices whose rows are no whole number of the type's blocks
};

/// Says size and types.
void log_gguf(const std::string& path, const GgufFileType& type, const GgufReport& report);

/// Some rows at a time, so memory does not grow with the model. UserError for what the file cannot hold; then there is
/// none.
GgufReport write_gguf(const GgufExport& what, const std::string& path);

}  // namespace dml
