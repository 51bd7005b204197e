// The state shared by the phases of build_model(): the unfinished model, its tensors, and the problems found so far.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/build.h"

namespace dml {

/// A shape as text: "[2, 3]".
std::string shape_of(std::span<const std::int64_t> shape);
/// All values of a stored tensor as float32.
void read_values(const StoredTensor& t, std::int64_t rows, std::int64_t cols, float* out);

/// The initial values of a whole tensor as (out, in): the stored ones or, if it is not stored, those of a new model.
struct TensorInit {
  WeightName weight;
  std::optional<StoredTensor> stored;
  std::uint64_t seed = 0;
  float init_range = 0, norm_weight = 1;
  void values(std::int64_t first, std::int64_t last, float* out) const;
};

struct BuildState {
  ModelSpec spec;
  const TensorSource& source;
  const Training& training;
  const std::string& source_name;
  CausalLm& model;
  AdapterPlan plan = {};
  Problems problems = {};
  std::vector<std::function<void()>> fills = {};  // initializations to run once the parameters are allocated
  std::map<std::string, TensorInit> starts = {};  // instead of `fills` with TrainedValues::in_parts; by parameter name
  std::map<std::string, kernels::Weight> residuals =
      {};  // base tensors minus the low-rank part moved to an adapter's initial values (low_rank_init.h)
  std::uint32_t next_stream = 0;  // random streams, one for each module that needs one

  ParameterRole role_of(const WeightName& w) const {
    if (w.role == WeightRole::embed || w.role == WeightRole::positions) return ParameterRole::embedding;
    return w.role == WeightRole::head ? ParameterRole::head : ParameterRole::hidden;
  }
  /// The stored tensor; adds a problem if it is missing or has the wrong shape.
  std::optional<StoredTensor> find(const WeightName& w);
  TensorInit init_of(const WeightName& w, const std::optional<StoredTensor>& t) const;
  /// All values of a whole tensor as (out, in).
  void tensor_values(const WeightName& w, const std::optional<StoredTensor>& t, float* out) const;
};

/// Sets what depends on the spec only: shapes, scales and switches of every block.
void set_up_blocks(BuildState& state);
/// Places every tensor of the base: trained ones become parameters, others views or memory of the model.
void place_weights(BuildState& state);
/// Adds the adapter's parameters to their layers.
void place_adapters(BuildState& state);

}  // namespace dml
