// Adapters that start from the base weight itself and leave the rest of it in the base: W = W' + s·BA.
//
//   PiSSA (Meng et al. 2024)        W ≈ U Σ Vᵀ, its r largest singular values;  B = U √(Σ/s), A = √(Σ/s) Vᵀ
//   OLoRA (Büyükakyüz 2024)         W = Q R;  B = the first r columns of Q, A = the first r rows of R
//
// As in PEFT, whose adapters keep the method in adapter_config.json: who loads one prepares the base in the same way, then
// takes A and B from the file. Everything here is a pure function of W.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/matrix.h"

namespace dml {

/// Whether init_lora_weights names a start that changes the base.
bool starts_from_base(const std::string& init);

struct LowRankStart {
  std::vector<float> a, b;   // (r, in), (out, r)
};
/// `w` (out, in) becomes W'. r is at most the smaller of its sides.
LowRankStart take_low_rank_part(const std::string& init, Mat w, std::int64_t r, double scale);

}  // namespace dml
