#include "diagnose/weightless_model.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <set>

#include "assembly/base_model.h"
#include "assembly/distribution.h"
#include "assembly/job.h"
#include "assembly/memory_plan.h"
#include "assembly/optimization.h"
#include "checkpoint/adapter_io.h"
#include "core/error.h"
#include "core/memory_limits.h"
#include "core/parallel.h"
#include "core/rounding.h"
#include "dist/simulated_comm.h"
#include "kernels/weight.h"
#include "model/build.h"
#include "model/weight_names.h"
#include "optim/optimizer.h"

namespace dml {

// Zeros for every tensor: one read-only mapping, which takes memory only for pages that are read.
class ZeroWeights {
 public:
  ZeroWeights(const ModelSpec& spec, const Recipe& recipe, const BaseStorage& base)
      : plain_(base.matrices), blocks_(base.blocks) {
    if (!base.directory.empty()) plain_ = recipe.model.frozen_storage.value_or(plain_);
    linear_ = !blocks_.empty()              ? plain_
              : recipe.adapter.load_in_4bit ? DType::nf4
              : recipe.adapter.load_in_8bit ? DType::int8
                                            : plain_;
    for (WeightName& w : weight_names(spec)) {
      size_ = std::max(size_, static_cast<std::size_t>(w.tensor_rows * w.cols) * sizeof(float));
      tensors_.try_emplace(w.tensor, w);
    }
    zeros_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros_ == MAP_FAILED) throw IoError("placeholder weights", "cannot reserve address space");
  }
  ~ZeroWeights() { munmap(zeros_, size_); }
  ZeroWeights(const ZeroWeights&) = delete;
  ZeroWeights& operator=(const ZeroWeights&) = delete;

  TensorSource source() const {
    return [this](const std::string& name) -> std::optional<StoredTensor> {
      const auto found = tensors_.find(name);
      if (found == tensors_.end()) return std::nullopt;
      StoredTensor out;
      out.shape = found->second.tensor_shape();
      out.data = zeros_;
      out.dtype = storage_of(found->second);
      if (out.dtype == DType::int8) out.scales = static_cast<const float*>(zeros_);
      if (out.dtype == DType::nf4 || out.dtype == DType::mxfp4) {
        out.scale_codes = static_cast<const std::uint8_t*>(zeros_);
        out.scale_blocks = static_cast<const float*>(zeros_);
      }
      return out;
    };
  }
  /// Of all tensors but those named in `trained`.
  std::size_t bytes(const std::set<std::string>& trained) const {
    std::size_t total = 0;
    for (const auto& [name, w] : tensors_) {
      if (trained.contains(name)) continue;
      const std::int64_t count = w.tensor_rows * w.cols;
      const DType storage = storage_of(w);
      total += static_cast<std::size_t>(dtype_bytes(storage, count));
      if (storage == DType::nf4) total += static_cast<std::size_t>(count / 60);  // scales of scales included
      if (storage == DType::mxfp4) total += static_cast<std::size_t>(count / kernels::kMxfp4Block);
    }
    return total;
  }

 private:
  DType storage_of(const WeightName& w) const {
    if (w.vector) return DType::f32;
    if (w.coded) return DType::mxfp4;
    if (const auto kept = blocks_.find(w.tensor); kept != blocks_.end()) return kept->second;
    return is_linear(w) ? linear_ : plain_;
  }

  std::map<std::string, WeightName> tensors_;  // of a tensor of several weights, one
  DType plain_, linear_ = plain_;
  const std::map<std::string, DType> blocks_;
  std::size_t size_ = 1;
  void* zeros_ = nullptr;
};

BaseStorage storage_of(const BaseModel& base) {
  const bool wide = !base.files || base.dtype() == DType::f32 || base.dtype() == DType::f64;
  BaseStorage out{base.directory, wide ? DType::f32 : DType::bf16, {}};
  if (base.files)
    for (const TensorView& t : base.files->tensors())
      if (t.quantized()) out.blocks.emplace(t.name, t.dtype);
  return out;
}

WeightlessModel::WeightlessModel(const Recipe& recipe, const ModelSpec& spec, const BaseStorage& base)
    : recipe_(recipe),
      full_(recipe.adapter.adapter == AdapterKind::none),
      matrices_(base.matrices),
      weights_(std::make_unique<ZeroWeights>(spec, recipe, base)) {
  Training training = training_of(recipe.adapter, base.directory, recipe.train.seed);
  training.values = {.in_parts = full_, .bf16 = trains_bf16(recipe)};
  if (training.adapter && recipe.adapter.lora_model_dir)
    training.adapter = read_adapter_config_of(*recipe.adapter.lora_model_dir, spec.model_type);
  if (training.adapter) {
    training.adapter->init = "true";  // other inits compute with the weights
    training.adapter->fan_in_fan_out = spec.stored.in_out;
    training.adapter = resolved_config(std::move(*training.adapter), spec);
  }
  model_ = build_model(spec, weights_->source(), training, base.directory.empty() ? "model_config" : base.directory);
  set_recompute_policy(*model_, recipe);
  model_->set_length(std::max(recipe.data.sequence_len, recipe.data.eval_sequence_len.value_or(0)));
}

WeightlessModel::~WeightlessModel() = default;

std::int64_t WeightlessModel::state_floats() const {
  const StateLayout state = make_optimizer(recipe_)->state();
  std::int64_t floats = 0;
  for (const Unit& unit : model_->parameters.units())
    for (const Parameter& p : unit.parameters) floats += state.floats(p, p.trained_size());
  return floats;
}

MemoryPlan WeightlessModel::plan(std::int64_t tokens, std::int64_t documents, int ranks) {
  MemoryPlan plan;
  plan.process = memory_use().now;
  plan.activations = model_->measure({tokens, tokens, documents}, true);
  const DryRun dry;
  SimulatedComm comm(0, ranks, {.ranks_per_host = ranks}, {});
  const auto strategy = make_strategy(recipe_, comm);
  ParameterStore store = model_->parameters.outline();
  strategy->announce(store);
  const std::int64_t micro_batches = recipe_.train.micro_batches_per_step(1);
  const auto held = strategy->memory(store, make_optimizer(recipe_)->state(), ceil_div(micro_batches, ranks));
  plan.trained = static_cast<std::size_t>(held.values);
  plan.gradients = static_cast<std::size_t>(held.gradients);
  plan.optimizer = static_cast<std::size_t>(held.state);
  std::set<std::string> trained;
  for (const Unit& unit : model_->parameters.units())
    for (const Parameter& p : unit.parameters)
      trained.insert(p.name.starts_with("base_model.model.") ? p.name.substr(17) : p.name);
  plan.frozen = weights_->bytes(trained);
  if (recipe_.train.prepack_weights == true) plan.packed = PackedWeights::bytes(model_->layer_linears());
  return plan;
}

std::size_t WeightlessModel::result_bytes() const {
  // A whole model is written in the type of the base, unless training rounds its weights; adapters in float32.
  if (!recipe_.adapter.makes_model()) return static_cast<std::size_t>(model_->parameters.trainable()) * sizeof(float);
  return static_cast<std::size_t>(dtype_bytes(rounds_weights() ? DType::bf16 : matrices_, model_->spec.parameters()));
}

std::size_t WeightlessModel::checkpoint_bytes() const {
  const std::int64_t values = full_ ? model_->spec.parameters() : model_->parameters.trainable();
  const std::int64_t state = recipe_.train.save_only_model ? 0 : state_floats();
  return static_cast<std::size_t>(dtype_bytes(rounds_weights() ? DType::bf16 : DType::f32, values) +
                                  dtype_bytes(DType::f32, state));
}

// Frozen weights are not rounded to bfloat16; a base that has them has nothing to round.
bool WeightlessModel::rounds_weights() const {
  return full_ && recipe_.optim.bf16_weights != Bf16Weights::off &&
         (recipe_.adapter.unfrozen_parameters.empty() || matrices_ == DType::bf16);
}

}  // namespace dml
