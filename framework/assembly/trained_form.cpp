#include "assembly/trained_form.h"

#include <algorithm>

#include "assembly/model_output.h"
#include "assembly/relora.h"

namespace dml {
namespace {

/// Trained weights in a checkpoint: float32, unless training itself rounds them.
DType checkpoint_dtype(const Recipe& recipe) {
  return recipe.optim.bf16_weights == Bf16Weights::off ? DType::f32 : DType::bf16;
}

std::size_t float_bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

class AllWeights : public TrainedForm {
 public:
  using TrainedForm::TrainedForm;
  std::string description() const override { return "full"; }
  const char* continuation_key() const override { return "base_model"; }
  bool copies_base() const override { return parts_.recipe.adapter.unfrozen_parameters.empty(); }
  std::size_t stored_bytes() const override {
    return static_cast<std::size_t>(dtype_bytes(stored_dtype(), parts_.base.spec.parameters()));
  }
  void load(const std::string& checkpoint) override { load_model_values(model(), checkpoint); }
  void write_result(const std::string& folder, DType dtype) override {
    write(folder, stored_dtype() == DType::bf16 ? DType::bf16 : dtype);
  }
  void write_checkpoint(const std::string& folder, std::int64_t) override { write(folder, stored_dtype()); }

  bool copies_shards() const override { return ShardedModelWriter::possible(model()); }
  std::size_t copied_bytes() const override {
    const ParameterStore& store = model().parameters;
    return copies_shards() ? static_cast<std::size_t>(store.floats() / parts_.strategy.slices() * store.value_width())
                           : 0;
  }
  Job write_copies(const std::string& folder, std::shared_ptr<const Copies> copies) override {
    auto parts = std::make_shared<ShardedModelWriter>(folder, parts_.base, model(), stored_dtype());
    if (is_first_rank()) parts->create();
    parts_.comm.barrier();
    return [=, tensors = my_tensors()](const std::stop_token& stop) { parts->write(copies->shards, tensors, stop); };
  }

 private:
  // Frozen weights keep the values that the run computes with: those of a wider base are not rounded.
  DType stored_dtype() const {
    const bool rounds_all = parts_.recipe.adapter.unfrozen_parameters.empty() || parts_.base.dtype() == DType::bf16;
    return rounds_all ? checkpoint_dtype(parts_.recipe) : DType::f32;
  }
  ShardedModelWriter::Tensors my_tensors() const {
    return is_first_rank() ? ShardedModelWriter::Tensors::all : ShardedModelWriter::Tensors::of_shards;
  }
  void write(const std::string& folder, DType dtype) {
    if (!copies_shards() || !holds_slices(parts_.strategy))
      return parts_.strategy.on_first_rank([&](const DistributionStrategy::Show& show) {
        write_model_directory(folder, parts_.base, model(), dtype, show);
      });
    ShardedModelWriter parts(folder, parts_.base, model(), dtype);
    if (is_first_rank()) parts.create();
    parts_.comm.barrier();
    parts.write(parts_.strategy.writes_state() ? parts_.strategy.shards() : std::span<Shard>(), my_tensors());
  }
};

class AdapterAlone : public TrainedForm {
 public:
  using TrainedForm::TrainedForm;
  std::string description() const override {
    const AdapterConfig& a = *parts_.trainable.adapter;
    return fmt::format("LoRA r={} alpha={:g}{}{}", a.r, a.alpha, a.use_rslora ? " rsLoRA" : "",
                       a.use_dora ? " DoRA" : "");
  }
  const char* continuation_key() const override { return "lora_model_dir"; }
  std::size_t stored_bytes() const override { return float_bytes(model().parameters.trainable()); }
  void load(const std::string& checkpoint) override {
    load_adapter(model(), read_adapter(checkpoint, model().spec, parts_.base.directory), checkpoint);
  }
  void write_result(const std::string& folder, DType) override {
    on_first_rank([&] { write(folder, {}); });
  }
  void write_checkpoint(const std::string& folder, std::int64_t) override {
    on_first_rank([&] { write(folder, {}); });
  }

  bool copies_units() const override { return true; }
  std::size_t copied_bytes() const override { return float_bytes(model().parameters.floats()); }
  Job write_copies(const std::string& folder, std::shared_ptr<const Copies> copies) override {
    if (!is_first_rank()) return {};
    return [=, this](const std::stop_token&) { write(folder, copies->units); };
  }

 protected:
  /// Calls f while all values are gathered.
  template <class F>
  void on_first_rank(F&& write) {
    const GatheredValues gathered(parts_.strategy);
    if (is_first_rank()) write();
  }

 private:
  void write(const std::string& folder, std::span<const std::span<float>> copies) const {
    write_adapter_directory(folder, *parts_.trainable.adapter, model(), copies, checkpoint_dtype(parts_.recipe));
  }
};

class MergedAdapter : public AdapterAlone {
 public:
  explicit MergedAdapter(const FormParts& parts) : AdapterAlone(parts), relora_(model(), parts.recipe) {
    parts.base.release();
  }
  std::string description() const override { return AdapterAlone::description() + ", " + relora_.description(); }
  const char* continuation_key() const override { return "base_model"; }
  bool changes_base() const override { return true; }
  std::size_t unused_base_bytes() const override { return relora_.unused_base_bytes(); }
  std::size_t stored_bytes() const override { return AdapterAlone::stored_bytes() + relora_.bytes(); }
  void before_step(std::int64_t done, const StateLayout& state) override {
    if (relora_.due(done)) relora_.restart(done, parts_.strategy, state, parts_.comm);
  }
  void load(const std::string& checkpoint) override { relora_.load(checkpoint); }
  void write_result(const std::string& folder, DType dtype) override {
    on_first_rank([&] { write_merged_directory(folder, parts_.base, model(), dtype, parts_.merged_rows); });
  }
  void write_checkpoint(const std::string& folder, std::int64_t step) override {
    on_first_rank([&] { relora_.save(folder, step); });
  }
  bool copies_units() const override { return false; }
  std::size_t copied_bytes() const override { return 0; }

 private:
  Relora relora_;
};

}  // namespace

bool holds_slices(const DistributionStrategy& strategy) { return strategy.slices() > 1; }

std::unique_ptr<TrainedForm> make_trained_form(const FormParts& parts) {
  if (parts.recipe.adapter.adapter == AdapterKind::none) return std::make_unique<AllWeights>(parts);
  if (parts.recipe.adapter.relora) return std::make_unique<MergedAdapter>(parts);
  return std::make_unique<AdapterAlone>(parts);
}

}  // namespace dml
