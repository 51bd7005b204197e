// Experts as PEFT's target_parameters sees them. transformers 5 stores a layer's experts in two three-dimensional
// parameters, gate_up and down, whatever the files hold, and PEFT adapts such a parameter as a whole
// (tuners/lora/layer.py, ParamWrapper): A (E · r, in) has r rows for every expert; column j · E + e of B (out, r · E)
// is that of rank j of expert e.
//
// B of dml is (E, out, r), so that every expert has its own matrix, with the rows of gate before those of up. It is
// converted when adapters are read and written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/spec.h"

namespace dml {

struct ExpertParameter {
  std::string name;                                         // "model.layers.0.mlp.experts.gate_up_proj"
  std::int64_t layer = 0, experts = 0, rows = 0, cols = 0;  // out and in of one expert
  bool down = false;
  bool interleaved = false;  // rows of gate and up are interleaved

  std::string module() const { return name.substr(0, name.rfind('.')); }
};

std::vector<ExpertParameter> expert_parameters(const ModelSpec& spec);

/// Convert B from PEFT's layout to that of dml, and back.
std::vector<float> expert_rows(const ExpertParameter& p, std::int64_t rank, std::span<const float> columns);
std::vector<float> expert_columns(const ExpertParameter& p, std::int64_t rank, std::span<const float> rows);

}  // namespace dml
