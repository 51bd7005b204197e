// State shared by the parts of build_model(): the unfinished model, its tensors, and the problems found
// so far.
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

/// "[2, 3]".
std::string shape_of(std::span<const std::int64_t> shape);
/// All values of a stored tensor as float32.
void read_values(const StoredTensor& t, std::int64_t rows, std::int64_t cols, float* out);

/// Values [first, last) of a whole tensor as (out, in); not stored: as it starts when nothing is known of it.
struct TensorStart {
  WeightName weight;
  std::optional<StoredTensor> stored;
  std::uint64_t seed = 0;
  float init_range = 0, norm_weight = 1;
  void values(std::int64_t first, std::int64_t last, float* out) const;
};

struct Building {
  ModelSpec spec;
  const TensorSource& source;
  const Training& training;
  const std::string& source_name;
  CausalLm& model;
  AdapterPlan plan = {};
  Problems problems = {};
  std::vector<std::function<void()>> fills = {};      // run once trained values have memory
  std::map<std::string, TensorStart> starts = {};     // instead of fills, by parameter: TrainedValues::in_parts
  std::map<std::string, kernels::Weight> rests = {};  // what an adapter's start left of a tensor
  std::uint32_t next_stream = 0;                      // of random numbers, one for each module that draws some

  /// A head that a language model's files do not have: it starts at random.
  bool is_new_head(const WeightName& w) const { return w.role == WeightRole::head && spec.head != HeadKind::causal_lm; }
  /// The stored tensor; notes a problem where it is missing or has another shape.
  std::optional<StoredTensor> find(const WeightName& w);
  TensorStart start_of(const WeightName& w, const std::optional<StoredTensor>& t) const;
  /// All values of a whole tensor as (out, in).
  void tensor_values(const WeightName& w, const std::optional<StoredTensor>& t, float* out) const;
};

/// Sets what follows from the spec alone: shapes, scales and switches of every block.
void set_up_blocks(Building& building);
/// Every tensor of the base: trained ones become parameters, others views or memory of the model.
void place_weights(Building& building);
/// The adapter's parameters, beside the weights they belong to.
void place_adapters(Building& building);

}  // namespace dml
