// Cosines and sines of the rotary embedding for every position, with all scalings Hugging Face knows.
#pragma once

#include <vector>

#include "kernels/rope.h"
#include "model/spec.h"

namespace dml {

/// Inverse frequencies (rotary dim / 2) for sequences up to `length`, and the factor on cos and sin in `attention_factor`.
std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t head_dim, std::int64_t max_positions,
                                     std::int64_t length, double& attention_factor);

/// Owns the tables of one model for positions [0, length).
class RopeTables {
 public:
  RopeTables() = default;
  RopeTables(const ModelSpec& spec, std::int64_t length);
  std::int64_t length() const { return length_; }
  kernels::RopeTable full() const { return view(full_); }
  kernels::RopeTable local() const { return view(local_); }

 private:
  struct Table {
    std::vector<float> cos, sin;
    std::int64_t half = 0;
  };
  Table make(const RopeSpec& rope, const ModelSpec& spec) const;
  kernels::RopeTable view(const Table& t) const {
    return {{t.cos.data(), length_, t.half}, {t.sin.data(), length_, t.half}};
  }

  Table full_, local_;
  std::int64_t length_ = 0;
};

}  // namespace dml
