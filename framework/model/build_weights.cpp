// Places the tensors of the base: frozen matrices are views; vectors, and tensors whose layout changes, are copied;
// trained ones become parameters.
#include <algorithm>
#include <numeric>

#include "kernels/cross_entropy.h"
#include "model/adapter_init.h"
#include "model/build_state.h"
#include "model/weight_slots.h"

namespace dml {
namespace {

using kernels::Weight;

class BaseWeights {
 public:
  explicit BaseWeights(BuildState& state) : b_(state) {}

  void place_all() {
    for (bool in_parts : {false, true})  // small parameters come first
      for (const WeightName& w : weight_names(b_.spec))
        if ((part_rows(w) > 0) == in_parts) place(w);
    if (b_.spec.tied) {
      b_.model.head.frozen = b_.model.embedding.frozen;
      b_.model.head.weight = b_.model.embedding.table;
    }
  }

 private:
  bool trained(const WeightName& w) const {
    if (w.role == WeightRole::router_correction) return false;  // it has no gradient
    if (w.constant) return false;
    if (b_.training.full) return !b_.training.unfrozen || b_.training.unfrozen(w.tensor, w.tensor_shape()[0]);
    auto named = [&](const WeightName& trained) { return trained.tensor == w.tensor; };
    return std::ranges::any_of(b_.plan.saved, named) || std::ranges::any_of(b_.plan.biases, named);
  }

  // Stores the values of a vector, or of a matrix whose layout changes, in the model's memory.
  const float* own(std::vector<float> values) {
    b_.model.owned.push_back(std::move(values));
    return b_.model.owned.back().data();
  }

  void place(const WeightName& w) {
    auto stored = b_.find(w);
    if (b_.source && !stored && !is_new_head(w, b_.spec)) return;
    if (trained(w) && w.coded)
      return b_.problems.add(fmt::format("{}: tensor '{}' is stored as mxfp4, which cannot be trained: use an adapter",
                                         b_.source_name, w.tensor));
    if (trained(w)) {
      attach_trained(w, stored);
      // PEFT's "original_module", for the adapter's file.
      const bool end = (w.role == WeightRole::embed || w.role == WeightRole::head) && !w.bias;
      if (b_.training.adapter && b_.training.adapter->resized && stored && end)
        *frozen_at(b_.model, w) = stored->as_matrix(w.tensor_rows, w.cols);
      return;
    }
    if (w.coded && stored) {
      attach_coded(w, *stored);
    } else if (w.experts > 0 && (!stored || w.vector || (w.reordered() && !stored->transposed))) {
      attach_expert(w, stored);
    } else if (w.vector || !stored || (w.transposed && !stored->transposed)) {
      std::vector<float> values(static_cast<std::size_t>(w.tensor_rows * w.cols));
      b_.tensor_values(w, stored, values.data());
      const float* all = own(std::move(values));
      attach(w, {}, {DType::f32, w.tensor_rows, w.cols, all, nullptr});
    } else {
      attach(w, {}, stored->as_matrix(w.tensor_rows, w.cols));
    }
  }

  // Reads only this expert's rows of a large stacked tensor.
  void attach_expert(const WeightName& w, const std::optional<StoredTensor>& stored) {
    std::vector<float> values(static_cast<std::size_t>(w.rows * w.cols));
    b_.init_of(w, stored).values(w.first_row * w.cols, (w.first_row + w.rows) * w.cols, values.data());
    Linear& linear = *linear_at(b_.model, w);
    if (w.bias) linear.frozen_bias = own(std::move(values));
    else
      linear.frozen =
          keep_values(stored ? stored->dtype : DType::f32, std::move(values), w.rows, w.cols, false, b_.model.owned);
  }

  // Rows of gate and up are interleaved and read in place.
  void attach_coded(const WeightName& w, const StoredTensor& stored) {
    const std::int64_t size = w.tensor_rows / w.experts, within = w.first_row - w.expert * size;
    Weight whole = stored.as_matrix(w.tensor_rows, w.cols);
    Weight own = whole.slice(w.expert * size + (w.interleaved ? (within > 0 ? 1 : 0) : within), 1);
    own.rows = w.rows;
    own.row_step = w.interleaved ? 2 : 1;
    linear_at(b_.model, w)->frozen = own;
  }

  // The rows of a parameter that are gathered at a time if values or gradients are sharded; 0: together with the small
  // parameters of its unit. Adapters are small; a tied embedding is needed from the head's gradient until the end of
  // the pass.
  std::int64_t part_rows(const WeightName& w) const {
    constexpr std::int64_t kMaxParts = 800;  // limit for a model, see dist/shards.h
    const bool small = w.vector || w.fused() || w.role == WeightRole::router || w.role == WeightRole::positions;
    if (!b_.training.full || !trained(w) || small) return 0;
    const bool end = w.role == WeightRole::embed || w.role == WeightRole::head;
    if ((end && b_.spec.tied) || is_new_head(w, b_.spec)) return 0;
    const std::int64_t largest = b_.spec.hidden * std::max(b_.spec.ffn, b_.spec.heads * b_.spec.head_dim);
    // Whole panels of the loss head, at multiples of 1024 floats; as large as a layer's largest matrix.
    const std::int64_t unit = kernels::HeadParts::kRowUnit * (16 / std::gcd(std::int64_t{16}, b_.spec.hidden));
    const std::int64_t rows = std::max<std::int64_t>(1, largest / b_.spec.hidden / unit) * unit;
    const std::int64_t of_layer = 8 + (b_.spec.moe.layout == ExpertLayout::each ? 3 * b_.spec.moe.experts : 0);
    if (of_layer * b_.spec.layers + 2 * (b_.spec.vocab / rows + 2) > kMaxParts) return 0;
    return end ? rows : w.rows;
  }

  void attach_trained(const WeightName& w, const std::optional<StoredTensor>& stored) {
    // A fused tensor is one parameter, which several weights refer to.
    ParameterRef& whole = whole_[w.tensor];
    if (!whole) {
      const std::string name = b_.training.adapter ? parameter_key(w, b_.plan) : w.tensor;
      std::vector<std::int64_t> shape = w.vector ? w.tensor_shape() : std::vector{w.tensor_rows, w.cols};
      const ParameterRole of_model = b_.role_of(w);
      const bool saved = of_model == ParameterRole::hidden && b_.training.adapter;
      whole = b_.model.parameters.add(unit_of(w, b_.spec), name, shape, !w.vector,
                                      saved ? ParameterRole::saved : of_model, part_rows(w));
      // transformers leaves only norms and biases out of weight decay.
      if (w.role == WeightRole::sinks || w.role == WeightRole::alpha_p || w.role == WeightRole::alpha_n)
        whole.unit->parameters.back().decay = true;
      if (w.reordered()) b_.model.reordered[name] = w.order();
      if (b_.training.full && b_.training.unfrozen) train_rows(w, whole.unit->parameters.back());
      if (b_.training.values.in_parts) b_.starts[name] = b_.init_of(w, stored);
      else if (b_.training.values.bf16)
        b_.fills.push_back([start = b_.init_of(w, stored), whole] { round_start(start, whole); });
      else b_.fills.push_back([&b = b_, w, stored, ref = whole] { b.tensor_values(w, stored, ref.value().data); });
    }
    ParameterRef part = whole;
    part.offset += w.first_row * w.cols;
    part.rows = w.vector ? 1 : w.rows;
    part.cols = w.vector ? w.rows : w.cols;
    attach(w, part, {});
  }

  // Converts in pieces, since a whole tensor in float32 takes twice the memory of its bfloat16 values.
  static void round_start(const TensorInit& start, const ParameterRef& whole) {
    constexpr std::int64_t kAtOnce = std::int64_t{1} << 22;
    const Parameter& p = whole.unit->parameters[whole.index];
    std::vector<float> values(static_cast<std::size_t>(std::min(p.size(), kAtOnce)));
    for (std::int64_t first = 0; first < p.size(); first += kAtOnce) {
      const std::int64_t last = std::min(p.size(), first + kAtOnce);
      start.values(first, last, values.data());
      set_values(*whole.unit, p, first, std::span(values).first(static_cast<std::size_t>(last - first)));
    }
  }

  void train_rows(const WeightName& w, Parameter& parameter) {
    const std::int64_t rows = w.tensor_shape()[0], cols = parameter.size() / rows;
    UnfrozenRows range = *b_.training.unfrozen(w.tensor, rows);
    if (range.first == 0 && range.last == rows) return;
    if (w.transposed)
      return b_.problems.add(
          fmt::format("{}: '{}' is stored as (in, out): its rows cannot be trained singly", b_.source_name, w.tensor));
    parameter.trained_first = range.first * cols;
    parameter.trained_last = range.last * cols;
  }

  // Either `ref` (trained; the rows of the weight) or `tensor` (frozen; the whole tensor) is set.
  void attach(const WeightName& w, ParameterRef ref, const Weight& tensor) {
    const float* vector = w.vector && tensor ? static_cast<const float*>(tensor.data) + w.first_row : nullptr;
    Weight matrix = !w.vector && tensor ? tensor.slice(w.first_row, w.rows) : Weight{};
    if (Linear* linear = linear_at(b_.model, w)) {
      if (w.bias) linear->bias = ref, linear->frozen_bias = vector;
      else linear->weight = ref, linear->frozen = matrix;
    } else if (Norm* norm = norm_at(b_.model, w)) {
      if (w.bias) norm->bias = ref, norm->frozen_bias = vector;
      else norm->weight = ref, norm->frozen = vector;
    } else if (w.role == WeightRole::sinks) {
      Attention& attention = b_.model.layers[static_cast<std::size_t>(w.layer)].attention;
      attention.sinks = ref, attention.frozen_sinks = vector;
    } else if (w.role == WeightRole::router_correction) {
      b_.model.layers[static_cast<std::size_t>(w.layer)].mlp.moe.router.rule.correction = vector;
    } else if (const VectorPlace place = vector_at(b_.model, w); place.frozen) {
      if (place.trained) *place.trained = ref;
      *place.frozen = vector;
    } else if (w.role == WeightRole::embed) {
      b_.model.embedding.table = ref, b_.model.embedding.frozen = matrix;
    } else if (w.role == WeightRole::positions) {
      b_.model.embedding.positions = ref, b_.model.embedding.frozen_positions = matrix;
    } else if (w.role == WeightRole::head) {
      b_.model.head.weight = ref, b_.model.head.frozen = matrix;
    } else {
      b_.problems.add(fmt::format("{}: tensor '{}' has no place in this model", b_.source_name, w.tensor));
    }
  }

  BuildState& b_;
  std::map<std::string, ParameterRef> whole_;
};

}  // namespace

void place_weights(BuildState& state) { BaseWeights(state).place_all(); }

}  // namespace dml
