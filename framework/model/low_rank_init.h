// Adapters that start from the base weight itself and leave the rest of it in the base: W = W' + s·BA.
//
//   PiSSA (Meng et al. 2024)        W ≈ U Σ Vᵀ, its r largest singular values;  B = U √(Σ/s), A = √(Σ/s) Vᵀ
//   OLoRA (Büyükakyüz 2024)         W = Q R;  B = the first r columns of Q, A = the first r rows of R
//   LoftQ (Li et al. 2023)          W ≈ Q + BA, Q in NF4: Q = nf4(W − BA), BA ≈ W − Q, a few times from BA = 0
//
// LoftQ's W' is Q; the adapter's scale s is not in its formula, so that s = 1 is what it is meant for.
// As in PEFT, whose adapters keep the method in adapter_config.json: who loads one prepares the base in the same way,
// then takes A and B from the file. Everything here is a pure function of W.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/matrix.h"

namespace dml {

/// Whether init_lora_weights names a start that changes the base.
bool starts_from_base(const std::string& init);

struct LowRankStart {
  std::vector<float> a, b;  // (r, in), (out, r)
};
/// `w` (out, in) becomes W'. r is at most the smaller of its sides.
LowRankStart take_low_rank_part(const std::string& init, Mat w, std::int64_t r, double scale,
                                std::int64_t loftq_iterations = 1);

}  // namespace dml
