// Completions that several steps train on, and their file in a checkpoint, by which a resumed run trains on them again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/packed_batch.h"

namespace dml {

/// A generated completion.
struct Completion {
  std::vector<Token> text;  // prompt and completion, including the stop token
  std::int32_t prompt = 0;  // number of prompt tokens
  bool ended = false;       // with a stop token, not by reaching the maximum length
  double advantage = 0;
  std::vector<double> old_logps = {};  // log p of each token when it was sampled; empty: sampled by the current weights
  std::vector<double> reference_logps = {};  // under the moving reference, in this step; not stored

  std::int64_t size() const { return std::ssize(text) - prompt; }
};

/// The completions of steps that are sampled together.
struct SampledSteps {
  std::int64_t first = -1;                     // number of the first step; −1: nothing was sampled yet
  std::vector<std::vector<Completion>> steps;  // in the order of each step's examples
};

/// "CHECKPOINT/completions.safetensors".
std::string completions_file(const std::string& checkpoint);
void write_completions(const std::string& path, const SampledSteps& sampled);
/// UserError when the file is damaged.
SampledSteps read_completions(const std::string& path);
/// Reads them from dml_state.json, where checkpoints of earlier versions have them; `source` begins errors.
SampledSteps completions_in(const Json& state, const std::string& source);

}  // namespace dml
