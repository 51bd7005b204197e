// Experts as PEFT's target_parameters sees them. transformers 5 holds a layer's experts in two parameters of three
// dimensions, gate_up and down, whatever its files hold, and PEFT adapts such a parameter as a whole
// (tuners/lora/layer.py, ParamWrapper): A (E · r, in) has r rows for every expert, B (out, r · E) a column for rank j
// of expert e at j · E + e.
//
// This model's B is (E, out, r), so that an expert's is a matrix of its own, rows of gate before those of up. It
// is turned into PEFT's where adapters are read and written.
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
  bool alternate = false;  // rows of gate and up are interleaved

  std::string module() const { return name.substr(0, name.rfind('.')); }
};

std::vector<ExpertParameter> expert_parameters(const ModelSpec& spec);

/// B of PEFT's file → this model's, and back.
std::vector<float> expert_rows(const ExpertParameter& p, std::int64_t rank, std::span<const float> columns);
std::vector<float> expert_columns(const ExpertParameter& p, std::int64_t rank, std::span<const float> rows);

}  // namespace dml
