#include "pipeline/init_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoint/model_config.h"
#include "core/error.h"
#include "core/files.h"
#include "kernels/weight.h"
#include "model/build.h"
#include "model/weight_names.h"
#include "optim/optimizer.h"
#include "pipeline/base_model.h"
#include "pipeline/job.h"

namespace dml {
namespace {

// Zeros for every tensor: one read-only range that no page of memory stands behind until it is read.
class NoWeights {
 public:
  NoWeights(const ModelSpec& spec, bool sixteen_bits, bool quantised)
      : spec_(spec), sixteen_bits_(sixteen_bits), quantised_(quantised) {
    for (const WeightName& w : weight_names(spec_))
      size_ = std::max(size_, static_cast<std::size_t>(w.tensor_rows * w.cols) * sizeof(float));
    zeros_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros_ == MAP_FAILED) throw IoError("mmap", std::strerror(errno));
  }
  ~NoWeights() { munmap(zeros_, size_); }
  NoWeights(const NoWeights&) = delete;
  NoWeights& operator=(const NoWeights&) = delete;

  TensorSource source() const {
    return [this](const std::string& name) -> std::optional<StoredTensor> {
      for (const WeightName& w : weight_names(spec_)) {
        if (w.tensor != name) continue;
        StoredTensor out;
        out.shape = w.tensor_shape();
        out.data = zeros_;
        out.storage = storage_of(w);
        if (out.storage == kernels::Storage::nf4) {
          out.scale_codes = static_cast<const std::uint8_t*>(zeros_);
          out.scale_blocks = static_cast<const float*>(zeros_);
        }
        return out;
      }
      return std::nullopt;
    };
  }
  kernels::Storage storage_of(const WeightName& w) const {
    if (w.vector) return kernels::Storage::f32;
    if (quantised_ && is_linear(w)) return kernels::Storage::nf4;
    return sixteen_bits_ ? kernels::Storage::bf16 : kernels::Storage::f32;
  }
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const WeightName& w : weight_names(spec_)) {
      const std::int64_t count = w.tensor_rows * w.cols;
      const kernels::Storage storage = storage_of(w);
      total += static_cast<std::size_t>(kernels::storage_bytes(storage, count));
      if (storage == kernels::Storage::nf4) total += static_cast<std::size_t>(count / 60);  // scales of scales included
    }
    return total;
  }

 private:
  const ModelSpec& spec_;
  bool sixteen_bits_, quantised_;
  std::size_t size_ = 1;
  void* zeros_ = nullptr;
};

}  // namespace

ModelSpec spec_of_config(const Json& config) { return read_model_config(config, "model_config"); }

MemoryPlan plan_of(const Recipe& recipe, const ModelSpec& spec, const ModelFacts& facts) {
  const bool full = recipe.adapter.adapter == AdapterKind::none, sixteen_bits = facts.dtype != "F32";
  MemoryPlan plan;
  plan.process = memory_use().now;
  const std::size_t values = static_cast<std::size_t>(spec.parameters()) * sizeof(float);
  NoWeights weights(spec, sixteen_bits, recipe.adapter.load_in_4bit);
  Training training = training_of(recipe.adapter, facts.directory, recipe.train.seed);
  auto model = build_model(spec, weights.source(), training, "the plan");
  set_keeping(*model, recipe);
  model->set_length(recipe.data.sequence_len);
  const std::int64_t examples = recipe.train.micro_batch_size, tokens = examples * recipe.data.sequence_len,
                     documents = recipe.data.sample_packing
                                     ? std::min(tokens, examples * recipe.data.sample_packing_bin_size)
                                     : examples;
  plan.activations = model->measure({tokens, tokens, documents}, true);
  const std::size_t trained = full ? values : static_cast<std::size_t>(model->parameters.trainable()) * sizeof(float);
  plan.trained = plan.gradients = trained;
  plan.optimizer = 2 * trained;  // AdamW
  if (!full) plan.frozen = weights.bytes();
  return plan;
}

}  // namespace dml
