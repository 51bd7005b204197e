// Compares the weights of a folder with its config.json before any memory is allocated.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model_files.h"
#include "model/spec.h"

namespace dml {

struct ModelReport {
  std::vector<std::string> errors;    // tensors that are missing, of another shape, or of an unsupported dtype
  std::vector<std::string> warnings;  // a separate head in a tied model; tensors that are not used
};

ModelReport report_weights(const ModelFiles& files, const ModelSpec& spec);

/// UserError with the first errors, one line each; logs the warnings.
void require_weights(const ModelFiles& files, const ModelSpec& spec);

}  // namespace dml
