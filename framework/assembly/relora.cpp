#include "assembly/relora.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "assembly/distribution.h"
#include "assembly/optimizer_state.h"
#include "assembly/trained_form.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/log.h"
#include "model/adapter_init.h"
#include "model/build.h"

namespace dml {
namespace {

constexpr const char* kFile = "/relora.safetensors";

// Parts of the adapter; modules of lora_modules_to_save are not restarted.
bool restarts(const Parameter& p) { return p.name.find(".lora_") != std::string::npos; }

PruneMethod method_of(ReloraPrune method) {
  if (method == ReloraPrune::random) return PruneMethod::random;
  return method == ReloraPrune::reset ? PruneMethod::reset : PruneMethod::magnitude;
}

// The tensor's, with the first row where it is one part of several.
std::string name_of(const OwnedMatrix& m) {
  return m.place.fused() ? fmt::format("{}[{}]", m.place.tensor, m.place.first_row) : m.place.tensor;
}

// Indices of the parameters that restart, the same on every rank.
std::map<std::string, std::size_t> numbers_of(const ParameterStore& parameters) {
  std::map<std::string, std::size_t> numbers;
  for (const Unit& unit : parameters.units())
    for (const Parameter& p : unit.parameters)
      if (restarts(p)) numbers.emplace(p.name, numbers.size());
  return numbers;
}

StateSlice slice_of(const Shard& s, std::size_t number, const StateLayout& layout) {
  StateSlice out{number, s.first, s.parameter->size(), {}};
  for (const StateTensor& t : layout.tensors(*s.parameter, s.size)) {
    DML_CHECK(t.dtype == DType::f32 && t.elements_per_entry == 1);  // else only reset (recipe/rules_adapter.cpp)
    out.planes.push_back(
        s.state.subspan(static_cast<std::size_t>(t.offset) / sizeof(float), static_cast<std::size_t>(s.size)));
  }
  return out;
}

}  // namespace

Relora::Relora(CausalLm& model, const Recipe& recipe)
    : model_(model),
      weights_(model, recipe.model.frozen_storage == DType::f32),
      every_(*recipe.optim.jagged_restart_steps),
      prune_ratio_(recipe.adapter.relora_prune_ratio),
      method_(method_of(recipe.adapter.relora_prune_method)),
      init_(recipe.adapter.peft_init_lora_weights == LoraInit::gaussian ? "gaussian" : "true"),
      seed_(static_cast<std::uint64_t>(recipe.train.seed)) {}

void Relora::restart(std::int64_t done, DistributionStrategy& strategy, const StateLayout& state, Comm& comm) {
  strategy.gather_values();
  weights_.merge();
  weights_.reinit_adapters(init_, seed_, done / every_);
  publish_values(model_.parameters, strategy);
  prune(done / every_, strategy, state, comm);
  log_debug("step {}: the adapter was merged into the base and restarted", done);
}

void Relora::prune(std::int64_t number, DistributionStrategy& strategy, const StateLayout& layout, Comm& comm) const {
  const auto numbers = numbers_of(model_.parameters);
  std::vector<StateSlice> slices;
  for (const Shard& s : shards_with_state(strategy)) {
    const std::string& name = s.parameter->name;
    if (!restarts(*s.parameter)) continue;
    if (method_ == PruneMethod::reset) std::ranges::fill(s.state, 0.0f);
    else if (method_ == PruneMethod::magnitude) slices.push_back(slice_of(s, numbers.at(name), layout));
    else
      prune_at_random(slice_of(s, numbers.at(name), layout), prune_ratio_,
                      stream_of(seed_, Purpose::adapter, fmt::format("restart {} of {}", number, name)));
  }
  if (method_ != PruneMethod::magnitude) return;
  const bool counts = holds_slices(strategy) ? strategy.writes_state() : comm.rank() == 0;
  prune_by_magnitude(slices, numbers.size(), prune_ratio_, [&](std::span<std::int64_t> below) {
    if (comm.size() == 1) return;
    std::string mine(below.size_bytes(), '\0');
    if (counts) std::memcpy(mine.data(), below.data(), mine.size());
    std::ranges::fill(below, 0);
    for (const std::string& part : comm.all_gather(mine))
      for (std::size_t i = 0; i < below.size(); ++i) {
        std::int64_t n;
        std::memcpy(&n, part.data() + i * sizeof n, sizeof n);
        below[i] += n;
      }
  });
}

void Relora::save(const std::string& folder, std::int64_t done) const {
  std::vector<TensorInfo> infos;
  std::map<std::string, const void*> data;
  for (const Unit& unit : model_.parameters.units())
    for (const Parameter& p : unit.parameters) {
      infos.push_back({p.name, DType::f32, p.shape});
      data[p.name] = unit.value.floats() + p.offset;
    }
  if (has_merged(done))
    for (const auto& m : weights_.matrices()) {
      infos.push_back({name_of(m), m.own.dtype, {m.own.rows, m.own.cols}});
      data[name_of(m)] = m.own.data;
    }
  SafetensorsWriter writer(folder + kFile, std::move(infos));
  for (const TensorInfo& t : writer.tensors()) writer.append(data.at(t.name), t.bytes());
  writer.commit();
}

void Relora::load(const std::string& checkpoint) {
  SafetensorsFile file(checkpoint + kFile);
  load_parameters(
      model_.parameters,
      [&](const std::string& name) -> std::optional<StoredTensor> {
        const TensorView* t = file.find(name);
        if (!t || t->dtype != DType::f32) return std::nullopt;
        return StoredTensor{DType::f32, {t->shape.begin(), t->shape.end()}, t->bytes.data()};
      },
      file.path());
  // Before the first restart the base is unchanged.
  if (weights_.matrices().empty() || !file.find(name_of(weights_.matrices()[0]))) return weights_.reset();
  for (const auto& m : weights_.matrices()) {
    const TensorView* t = file.find(name_of(m));
    if (!t || t->dtype != m.own.dtype || t->bytes.size() != m.bytes())
      throw UserError("{}: tensor '{}' is {}, expected {} of {}", file.path(), name_of(m),
                      t ? fmt::format("{} of {}", shape_text(t->shape), safetensors_name(t->dtype)) : "missing",
                      fmt::format("[{}, {}]", m.own.rows, m.own.cols), safetensors_name(m.own.dtype));
    std::memcpy(m.data(), t->bytes.data(), m.bytes());
  }
}

std::size_t Relora::unused_base_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& m : weights_.matrices())
    if (!m.place.transposed) bytes += dtype_bytes(m.original.dtype, m.original.rows * m.original.cols);
  return static_cast<std::size_t>(bytes);
}

std::size_t Relora::bytes() const {
  std::size_t bytes = 0;
  for (const auto& m : weights_.matrices()) bytes += m.bytes();
  return bytes;
}

std::string Relora::description() const { return fmt::format("ReLoRA, merged every {} steps", every_); }

}  // namespace dml
