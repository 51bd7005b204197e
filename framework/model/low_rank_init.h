// Initial values of adapters computed from the base weight, which keeps the residual: W = W' + s·BA.
//
//   PiSSA (Meng et al. 2024)        W ≈ U Σ Vᵀ, its r largest singular values;  B = U √(Σ/s), A = √(Σ/s) Vᵀ
//   OLoRA (Büyükakyüz 2024)         W = Q R;  B = the first r columns of Q, A = the first r rows of R
//   LoftQ (Li et al. 2023)          W ≈ Q + BA, Q in NF4: Q = nf4(W − BA), BA ≈ W − Q, a few times from BA = 0
//
// For LoftQ, W' is Q; its formula has no scale s, so it assumes s = 1. As in PEFT, adapter_config.json names the
// method; loading such an adapter computes W' in the same way and then reads A and B from the file. All results are
// pure functions of W.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/matrix.h"

namespace dml {

/// Whether init_lora_weights names a method that changes the base.
bool starts_from_base(const std::string& init);

struct LowRankFactors {
  std::vector<float> a, b;  // (r, in), (out, r)
};
/// Overwrites `w` (out, in) by W' and returns A and B. r must not exceed min(out, in).
LowRankFactors extract_low_rank(const std::string& init, Mat w, std::int64_t r, double scale,
                                std::int64_t loftq_iterations = 1);

}  // namespace dml
