// What GaLore and APOLLO share: AdamW whose matrices of optim_target_modules have the moments of a projected gradient.
// An m × n gradient becomes m × r if m ≥ n, otherwise r × n, by a basis (r, shorter side).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/regex.h"
#include "optim/adam.h"

namespace dml {

/// optim_target_modules: each is a name, a part of a name, or a regular expression for the full module name;
/// all-linear: every matrix except embeddings.
class OptimTargetModules {
 public:
  explicit OptimTargetModules(const std::vector<std::string>& modules);
  bool contains(const Parameter& p) const;

 private:
  std::vector<std::string> modules_;
  std::vector<Regex> patterns_;
  bool all_linear_ = false;
};

struct Projection {
  std::int64_t rows, cols, rank;
  bool right;  // projects rows: (m, n) · (n, r)

  Projection(const MatrixShape& m, std::int64_t most)
      : rows(m.rows), cols(m.cols), rank(std::min({most, m.rows, m.cols})), right(m.rows >= m.cols) {}
  std::int64_t short_side() const { return right ? cols : rows; }
  std::int64_t basis() const { return rank * short_side(); }  // floats, rank × short side
  std::int64_t projected() const { return right ? rows * rank : rank * cols; }
};

/// low = g projected onto the basis (rank, short side).
void project(const Projection& p, const float* g, const float* basis, float* low);
/// g = low projected back to the full space.
void project_back(const Projection& p, const float* low, const float* basis, float* g);
/// Sets `out` to Adam's m/(√v + ε); returns the factor of the bias corrections, √(1 − β2ᵗ)/(1 − β1ᵗ).
float adam_direction(const AdamSettings& a, std::int64_t t, std::int64_t size, const float* g, float* m, float* v,
                     float* out);

/// The arguments that low-rank optimizers share: rank, update_proj_gap, proj_type.
std::vector<OptimizerArgument> low_rank_arguments(int rank, const char* gap_help);

/// AdamW on projected gradients of the matrices of optim_target_modules, by a rule of the derived class; of everything
/// else on the gradients themselves. UserError unless rank and update_proj_gap are at least 1.
class LowRankAdamW : public Optimizer {
 public:
  StateLayout state() const override;
  std::size_t working_bytes(const Parameter& p) const override;
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override;

 protected:
  /// `first`: tensors of the state before the basis.
  LowRankAdamW(const OptimizerSettings& s, const std::vector<OptimizerArgument>& arguments, const char* name,
               std::vector<StateTensor> first = {});
  Projection projection(const Parameter& p) const { return {trained_matrix(p), a_.whole_number("rank")}; }
  /// Whether a step sets the basis: every update_proj_gap steps, and if there is none, since step 0 may be skipped.
  bool sets_basis(const OptimizerStep& step, const Projection& to, const float* basis) const;
  virtual std::int64_t working_floats(const Projection& to) const = 0;
  virtual void step_matrix(const OptimizerSlice& s, const OptimizerStep& step) const = 0;

  Arguments a_;
  AdamSettings adam_;

 private:
  void step_whole(const OptimizerSlice& s, const OptimizerStep& step) const;

  std::shared_ptr<const OptimTargetModules> targets_;
  std::vector<StateTensor> first_;
};

}  // namespace dml
