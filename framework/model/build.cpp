#include "model/build.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "kernels/cross_entropy.h"
#include "kernels/quant_nf4.h"
#include "model/adapter_start.h"
#include "model/low_rank_init.h"
#include "model/weight_slots.h"

namespace dml {
namespace {

using kernels::Storage;
using kernels::Weight;

std::string shape_of(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t elements(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

// All values of a stored tensor as float32.
void read_values(const StoredTensor& t, std::int64_t rows, std::int64_t cols, float* out) {
  constexpr std::int64_t kValuesPerTask = 1 << 16;
  Weight w = t.as_matrix(rows, cols);
  parallel_ranges(rows, std::max<std::int64_t>(1, kValuesPerTask / cols), [&](std::int64_t first, std::int64_t last) {
    kernels::unpack(w, first, last - first, 0, cols, out + first * cols);
  });
}

// Values [first, last) of a whole tensor as (out, in); null: as it starts when nothing is known of it.
struct TensorStart {
  WeightName weight;
  std::optional<StoredTensor> stored;
  std::uint64_t seed = 0;
  float init_range = 0, norm_weight = 1;
  void values(std::int64_t first, std::int64_t last, float* out) const;
};

void TensorStart::values(std::int64_t first, std::int64_t last, float* out) const {
  const std::int64_t rows = weight.tensor_rows, cols = weight.cols;
  if (!stored) {
    Random stream = stream_of(seed, Purpose::init, weight.tensor);
    for (std::int64_t i = first; i < last; ++i)
      out[i - first] = !weight.vector ? stream.normal(static_cast<std::uint64_t>(i)) * init_range
                       : weight.start ? *weight.start
                       : !weight.bias ? norm_weight
                                      : 0;
  } else if (weight.reordered() && !stored->turned) {
    // One expert's at a time, of those asked for.
    const StoredOrder order = weight.order();
    const std::int64_t size = order.rows * order.cols;
    StoredOrder one = order;
    one.experts = 1;
    std::vector<float> all(static_cast<std::size_t>(size));
    for (std::int64_t e = first / size; e * size < last; ++e) {
      const std::int64_t begin = std::max(first, e * size), end = std::min(last, (e + 1) * size);
      kernels::unpack(stored->as_matrix(order.experts, size), e, 1, 0, size, all.data());
      for (std::int64_t i = begin; i < end; ++i)
        out[i - first] = all[static_cast<std::size_t>(one.place(i - e * size))];
    }
  } else if (first == 0 && last == rows * cols) {
    read_values(*stored, rows, cols, out);
  } else {
    kernels::unpack(stored->as_matrix(1, rows * cols), 0, 1, first, last - first, out);
  }
}

class Builder {
 public:
  Builder(const ModelSpec& spec, const TensorSource& source, const Training& training, const std::string& source_name)
      : spec_(spec),
        source_(source),
        training_(training),
        source_name_(source_name),
        model_(std::make_unique<CausalLm>()) {}

  std::unique_ptr<CausalLm> build() {
    if (training_.adapter) plan_ = plan_adapter(*training_.adapter, spec_, source_name_);
    if (plan_.parts_ends) spec_.tied = false;
    model_->spec = spec_;
    std::vector<std::string> units{"embed"};
    for (std::int64_t l = 0; l < spec_.layers; ++l) units.push_back(fmt::format("layers.{}", l));
    units.push_back("head");
    model_->parameters.create_units(std::move(units));
    model_->layers.resize(static_cast<std::size_t>(spec_.layers));
    set_up_blocks();
    for (bool in_parts : {false, true})  // what is small comes first
      for (const WeightName& w : weight_names(spec_))
        if ((part_rows(w) > 0) == in_parts) place(w);
    if (spec_.tied) {
      model_->head.frozen = model_->embedding.frozen;
      model_->head.weight = model_->embedding.table;
    }
    if (training_.adapter) place_adapters();
    for (const AdaptedExperts& experts : plan_.experts) place_expert_adapter(experts);
    for (const TrainedRows& rows : plan_.rows) place_rows(rows);
    problems_.raise();
    model_->parameters.ends_take_turns = training_.full && !spec_.tied;
    if (training_.in_parts) {
      model_->parameters.start = [starts = std::move(starts_)](const Parameter& p, std::int64_t first,
                                                               std::int64_t last, float* out) {
        starts.at(p.name).values(first, last, out);
      };
      return std::move(model_);
    }
    model_->parameters.allocate();
    for (auto& fill : fills_) fill();
    return std::move(model_);
  }

 private:
  // ---- what the spec alone decides

  Norm norm_of(double offset) const {
    Norm n;
    n.layer_norm = spec_.norm == NormKind::layer;
    n.eps = static_cast<float>(spec_.norm_eps);
    n.offset = static_cast<float>(offset);
    return n;
  }

  void set_up_blocks() {
    model_->embedding.scale = static_cast<float>(spec_.embedding_scale);
    model_->head.norm = norm_of(spec_.norm_offset);
    model_->head.softcap = static_cast<float>(spec_.final_softcap);
    model_->head.scale = static_cast<float>(spec_.logit_scale);
    for (std::size_t l = 0; l < model_->layers.size(); ++l) {
      DecoderLayer& layer = model_->layers[l];
      layer.parallel = spec_.parallel_residual;
      layer.residual_scale = static_cast<float>(spec_.residual_scale);
      layer.attention_norm = layer.attention_post_norm = layer.mlp_norm = layer.mlp_post_norm =
          norm_of(spec_.norm_offset);
      layer.mlp.activation = spec_.activation;
      if (spec_.sparse(static_cast<std::int64_t>(l))) set_up_experts(layer.mlp.moe);
      Attention& a = layer.attention;
      std::int64_t window = l < spec_.windows.size() ? spec_.windows[l] : 0;
      a.shape = {spec_.heads,
                 spec_.kv_heads,
                 spec_.head_dim,
                 spec_.attention_scale(static_cast<std::int64_t>(l)),
                 static_cast<float>(spec_.attention_softcap),
                 window};
      a.q_norm = a.k_norm = norm_of(spec_.norm_offset);
      a.q_norm.layer_norm = a.k_norm.layer_norm = spec_.qk_norm_kind == NormKind::layer;
      a.norm_whole = spec_.qk_norm_whole;
      a.norm_behind_rope = spec_.qk_norm_behind_rope;
      if (spec_.qk_head_norms) {
        a.q_norms.assign(static_cast<std::size_t>(spec_.heads), a.q_norm);
        a.k_norms.assign(static_cast<std::size_t>(spec_.kv_heads), a.k_norm);
      }
      a.use_rope = spec_.use_rope && !(l < spec_.without_rope.size() && spec_.without_rope[l]);
      a.local_rope = spec_.has_local_rope && window > 0;
      if (spec_.latent) set_up_latent(a.latent);
    }
  }

  void set_up_latent(Latent& latent) const {
    const LatentSpec& l = spec_.latent;
    constexpr float kEps = 1e-6f;  // whatever the config says
    latent.heads = spec_.heads, latent.nope = l.nope, latent.rope = l.rope, latent.value = l.value;
    latent.interleaved = l.interleaved;
    latent.q_norm.eps = latent.kv_norm.eps = kEps;
  }

  void set_up_experts(Moe& moe) {
    const MoeSpec& m = spec_.moe;
    moe.router.rule = {m.experts, m.chosen, m.sigmoid, m.normalise, static_cast<float>(m.scale), m.groups, m.chosen_groups};
    moe.experts.resize(static_cast<std::size_t>(m.experts));
    for (Mlp& expert : moe.experts) expert.activation = spec_.activation;
    moe.shared.activation = spec_.activation;
    moe.jitter = static_cast<float>(m.jitter);
    moe.stream = next_stream_++;
  }

  // ---- weights of the base

  std::size_t unit_of(const WeightName& w) const {
    if (w.layer >= 0) return static_cast<std::size_t>(w.layer) + 1;
    return w.role == WeightRole::embed || w.role == WeightRole::positions ? 0
                                                                          : static_cast<std::size_t>(spec_.layers) + 1;
  }

  bool trained(const WeightName& w) const {
    if (w.role == WeightRole::router_correction) return false;  // no gradient reaches it
    if (w.constant) return false;
    if (training_.full) return !training_.unfrozen || training_.unfrozen(w.tensor, w.tensor_shape()[0]);
    auto named = [&](const WeightName& trained) { return trained.tensor == w.tensor; };
    return std::ranges::any_of(plan_.saved, named) || std::ranges::any_of(plan_.biases, named);
  }

  std::optional<StoredTensor> find(const WeightName& w) {
    if (!source_) return std::nullopt;
    auto t = source_(w.tensor);
    if (!t && plan_.parts_ends && w.role == WeightRole::head) t = source_(end_weights(spec_)[0].tensor);
    if (!t) {
      problems_.add(fmt::format("{}: tensor '{}' is missing", source_name_, w.tensor));
    } else if (auto wanted = w.tensor_shape(); t->shape != wanted) {
      problems_.add(fmt::format("{}: tensor '{}' has shape {}, config.json asks for {}", source_name_, w.tensor,
                                shape_of(t->shape), shape_of(wanted)));
      t.reset();
    }
    return t;
  }

  // Values of a vector, or of a matrix that must change its form, in memory of the model's own.
  const float* own(std::vector<float> values) {
    model_->owned.push_back(std::move(values));
    return model_->owned.back().data();
  }

  TensorStart start_of(const WeightName& w, const std::optional<StoredTensor>& t) const {
    return {w, t, training_.seed, static_cast<float>(spec_.init_range), 1 - static_cast<float>(spec_.norm_offset)};
  }
  // All values of a whole tensor as (out, in).
  void tensor_values(const WeightName& w, const std::optional<StoredTensor>& t, float* out) const {
    start_of(w, t).values(0, w.tensor_rows * w.cols, out);
  }

  void place(const WeightName& w) {
    auto stored = find(w);
    if (source_ && !stored) return;
    if (trained(w) && w.coded)
      return problems_.add(fmt::format("{}: tensor '{}' is stored as mxfp4, which cannot be trained: use an adapter",
                                       source_name_, w.tensor));
    if (trained(w)) {
      attach_trained(w, stored);
      // What PEFT calls the original module, for the adapter's file.
      const bool end = (w.role == WeightRole::embed || w.role == WeightRole::head) && !w.bias;
      if (training_.adapter && training_.adapter->resized && stored && end)
        *frozen_at(*model_, w) = stored->as_matrix(w.tensor_rows, w.cols);
      return;
    }
    if (w.coded && stored) {
      attach_coded(w, *stored);
    } else if (w.experts > 0 && (!stored || w.vector || (w.reordered() && !stored->turned))) {
      attach_expert(w, stored);
    } else if (w.vector || !stored || (w.transposed && !stored->turned)) {
      std::vector<float> values(static_cast<std::size_t>(w.tensor_rows * w.cols));
      tensor_values(w, stored, values.data());
      const float* all = own(std::move(values));
      attach(w, {}, {Storage::f32, w.tensor_rows, w.cols, all, nullptr});
    } else {
      attach(w, {}, stored->as_matrix(w.tensor_rows, w.cols));
    }
  }

  // Its own rows alone: the tensor is large, and has every expert's.
  void attach_expert(const WeightName& w, const std::optional<StoredTensor>& stored) {
    std::vector<float> values(static_cast<std::size_t>(w.rows * w.cols));
    start_of(w, stored).values(w.first_row * w.cols, (w.first_row + w.rows) * w.cols, values.data());
    Linear& linear = *linear_at(*model_, w);
    if (w.bias) linear.frozen_bias = own(std::move(values));
    else
      linear.frozen = keep_values(stored ? stored->storage : Storage::f32, std::move(values), w.rows, w.cols, false,
                                  model_->owned);
  }

  // Rows of gate and up lie in turn, and are read from there.
  void attach_coded(const WeightName& w, const StoredTensor& stored) {
    const std::int64_t size = w.tensor_rows / w.experts, within = w.first_row - w.expert * size;
    Weight whole = stored.as_matrix(w.tensor_rows, w.cols);
    Weight own = whole.slice(w.expert * size + (w.alternate ? (within > 0 ? 1 : 0) : within), 1);
    own.rows = w.rows;
    own.row_step = w.alternate ? 2 : 1;
    linear_at(*model_, w)->frozen = own;
  }

  // How many rows of a parameter are gathered at a time where values or gradients are sharded, 0: with all that is small of
  // its unit. Adapters are small; a tied embedding is needed from the head's gradient on until the end of the pass.
  std::int64_t part_rows(const WeightName& w) const {
    constexpr std::int64_t kMostParts = 800;  // of a model: dist/slices.h
    if (!training_.full || !trained(w) || w.vector || w.fused() || w.role == WeightRole::router || w.role == WeightRole::positions) return 0;
    const bool end = w.role == WeightRole::embed || w.role == WeightRole::head;
    if (end && spec_.tied) return 0;
    const std::int64_t largest = spec_.hidden * std::max(spec_.ffn, spec_.heads * spec_.head_dim);
    // Whole panels of the loss head, at multiples of 1024 floats; as large as a layer's largest matrix.
    const std::int64_t unit = kernels::HeadParts::kRowUnit * (16 / std::gcd(std::int64_t{16}, spec_.hidden));
    const std::int64_t rows = std::max<std::int64_t>(1, largest / spec_.hidden / unit) * unit;
    const std::int64_t of_layer = 8 + (spec_.moe.layout == ExpertLayout::each ? 3 * spec_.moe.experts : 0);
    if (of_layer * spec_.layers + 2 * (spec_.vocab / rows + 2) > kMostParts) return 0;
    return end ? rows : w.rows;
  }

  void attach_trained(const WeightName& w, const std::optional<StoredTensor>& stored) {
    // A fused tensor is one parameter, seen by several weights.
    ParameterRef& whole = whole_[w.tensor];
    if (!whole) {
      const std::string name = training_.adapter ? parameter_key(w, plan_) : w.tensor;
      std::vector<std::int64_t> shape = w.vector ? w.tensor_shape() : std::vector{w.tensor_rows, w.cols};
      whole = model_->parameters.add(unit_of(w), name, shape, !w.vector, part_rows(w));
      if (w.reordered()) model_->reordered[name] = w.order();
      if (training_.full && training_.unfrozen) train_rows(w, whole.unit->parameters.back());
      if (training_.in_parts) starts_[name] = start_of(w, stored);
      else fills_.push_back([this, w, stored, ref = whole] { tensor_values(w, stored, ref.value().data); });
    }
    ParameterRef part = whole;
    part.offset += w.first_row * w.cols;
    part.rows = w.vector ? 1 : w.rows;
    part.cols = w.vector ? w.rows : w.cols;
    attach(w, part, {});
  }

  void train_rows(const WeightName& w, Parameter& parameter) {
    const std::int64_t rows = w.tensor_shape()[0], cols = parameter.size() / rows;
    RowRange range = *training_.unfrozen(w.tensor, rows);
    if (range.first == 0 && range.last == rows) return;
    if (w.transposed)
      return problems_.add(
          fmt::format("{}: '{}' is stored as (in, out): its rows cannot be trained singly", source_name_, w.tensor));
    parameter.trained_first = range.first * cols;
    parameter.trained_last = range.last * cols;
  }

  // Either `ref` (trained, already the right rows) or `tensor` (frozen, the whole tensor) is set.
  void attach(const WeightName& w, ParameterRef ref, const Weight& tensor) {
    const float* vector = w.vector && tensor ? static_cast<const float*>(tensor.data) + w.first_row : nullptr;
    Weight matrix = !w.vector && tensor ? tensor.slice(w.first_row, w.rows) : Weight{};
    if (Linear* linear = linear_at(*model_, w)) {
      if (w.bias) linear->bias = ref, linear->frozen_bias = vector;
      else linear->weight = ref, linear->frozen = matrix;
    } else if (Norm* norm = norm_at(*model_, w)) {
      if (w.bias) norm->bias = ref, norm->frozen_bias = vector;
      else norm->weight = ref, norm->frozen = vector;
    } else if (w.role == WeightRole::sinks) {
      Attention& attention = model_->layers[static_cast<std::size_t>(w.layer)].attention;
      attention.sinks = ref, attention.frozen_sinks = vector;
    } else if (w.role == WeightRole::router_correction) {
      model_->layers[static_cast<std::size_t>(w.layer)].mlp.moe.router.rule.correction = vector;
    } else if (const VectorPlace place = vector_at(*model_, w); place.frozen) {
      if (place.trained) *place.trained = ref;
      *place.frozen = vector;
    } else if (w.role == WeightRole::embed) {
      model_->embedding.table = ref, model_->embedding.frozen = matrix;
    } else if (w.role == WeightRole::positions) {
      model_->embedding.positions = ref, model_->embedding.frozen_positions = matrix;
    } else if (w.role == WeightRole::head) {
      model_->head.weight = ref, model_->head.frozen = matrix;
    } else {
      problems_.add(fmt::format("{}: tensor '{}' has no place in this model", source_name_, w.tensor));
    }
  }

  // ---- adapters

  void place_adapters() {
    std::map<std::string, const AdaptedModule*> wanted;
    for (const AdaptedModule& m : plan_.modules) wanted[m.module.name] = &m;
    std::map<std::string, LoraAdapter> made;
    for (const WeightName& w : weight_names(spec_)) {
      auto found = w.bias || w.vector ? wanted.end() : wanted.find(w.module());
      if (found == wanted.end()) continue;
      std::optional<LoraAdapter>* slot = adapter_at(*model_, w);
      Linear* linear = linear_at(*model_, w);
      if (!slot || (!linear && training_.adapter->use_dora)) {
        problems_.add(fmt::format("{}: {} on '{}' is not supported: name it in lora_modules_to_save instead",
                                  source_name_, slot ? "DoRA" : "LoRA", w.module()));
        continue;
      }
      auto [it, fresh] = made.try_emplace(w.module());
      if (fresh) it->second = make_adapter(*found->second, w);
      // Weights of a fused tensor share A and own their rows of B.
      LoraAdapter part = it->second;
      if (w.fused()) {
        part.b.offset += w.first_row * part.b.cols;
        part.b.rows = w.rows;
      }
      if (part.bias) {
        part.bias.offset += w.first_row;
        part.bias.cols = w.rows;
      }
      if (part.magnitude) {
        part.magnitude.offset += w.first_row;
        part.magnitude.cols = w.rows;
      }
      *slot = part;
      if (auto rest = rests_.find(w.tensor); rest != rests_.end())
        *frozen_at(*model_, w) = rest->second.slice(w.first_row, w.rows);
      if (part.magnitude) fills_.push_back([linear] { start_magnitude(*linear); });
    }
  }

  LoraAdapter make_adapter(const AdaptedModule& m, const WeightName& w) {
    const std::string name = "base_model.model." + m.module.name;
    const std::size_t unit = unit_of(w);
    LoraAdapter lora;
    if (m.module.embedding) {
      lora.a = model_->parameters.add(unit, name + ".lora_embedding_A", {m.r, m.module.rows}, true);
      lora.b = model_->parameters.add(unit, name + ".lora_embedding_B", {m.module.cols, m.r}, true);
    } else {
      lora.a = model_->parameters.add(unit, name + ".lora_A.weight", {m.r, m.module.cols}, true);
      lora.b = model_->parameters.add(unit, name + ".lora_B.weight", {m.module.rows, m.r}, true);
      if (training_.adapter->lora_bias)
        lora.bias = model_->parameters.add(unit, name + ".lora_B.bias", {m.module.rows}, false);
      if (training_.adapter->use_dora)
        lora.magnitude = model_->parameters.add(unit, name + ".lora_magnitude_vector", {m.module.rows}, false);
      lora.dropout = static_cast<float>(training_.adapter->dropout);
    }
    lora.scale = static_cast<float>(m.scale);
    lora.stream = next_stream_++;
    if (m.module.embedding)
      fills_.push_back(
          [this, lora, name] { start_embedding_adapter(lora, training_.adapter->init, training_.seed, name); });
    else if (starts_from_base(training_.adapter->init)) start_from_base(lora, m, w);
    else fills_.push_back([this, lora, name] { start_adapter(lora, training_.adapter->init, training_.seed, name); });
    return lora;
  }

  // One parameter for all experts, of which each has its rows.
  void place_expert_adapter(const AdaptedExperts& adapted) {
    const ExpertParameter& p = adapted.parameter;
    const std::string name = "base_model.model." + adapted.stem;
    const auto unit = static_cast<std::size_t>(p.layer) + 1;
    LoraAdapter all;
    all.a = model_->parameters.add(unit, name + ".lora_A.weight", {p.experts * adapted.r, p.cols}, true);
    all.b = model_->parameters.add(unit, name + ".lora_B.weight", {p.experts * p.rows, adapted.r}, true);
    all.scale = static_cast<float>(adapted.scale);
    fills_.push_back([this, all, name] { start_adapter(all, training_.adapter->init, training_.seed, name); });
    auto rows = [](ParameterRef ref, std::int64_t first, std::int64_t count) {
      ref.offset += first * ref.cols;
      ref.rows = count;
      return ref;
    };
    Moe& moe = model_->layers[static_cast<std::size_t>(p.layer)].mlp.moe;
    for (std::int64_t e = 0; e < p.experts; ++e) {
      Mlp& expert = moe.experts[static_cast<std::size_t>(e)];
      LoraAdapter own = all;
      own.a = rows(all.a, e * adapted.r, adapted.r);
      const std::int64_t parts = p.down ? 1 : 2, count = p.rows / parts;
      for (std::int64_t part = 0; part < parts; ++part) {
        Linear& linear = p.down ? expert.down : part == 0 ? expert.gate : expert.up;
        own.b = rows(all.b, e * p.rows + part * count, count);
        if (linear.lora)
          problems_.add(fmt::format("{}: '{}' is in lora_target_parameters, and its matrices in lora_target_modules",
                                    source_name_, p.name));
        linear.lora = own;
      }
    }
  }

  // They start as the rows they take the place of.
  void place_rows(const TrainedRows& trained) {
    const WeightName& w = trained.weight;
    const auto count = static_cast<std::int64_t>(trained.tokens.size());
    const bool embedding = w.role == WeightRole::embed;
    TrainedTokens& own = embedding ? model_->embedding.own : model_->head.own;
    own.rows = model_->parameters.add(unit_of(w), rows_key(w), {count, w.cols}, true);
    for (std::int64_t k = 0; k < count; ++k) own.numbers.push_back(static_cast<std::int32_t>(k));
    std::ranges::sort(own.numbers, {}, [&](std::int32_t k) { return trained.tokens[static_cast<std::size_t>(k)]; });
    for (std::int32_t k : own.numbers)
      own.tokens.push_back(static_cast<std::int32_t>(trained.tokens[static_cast<std::size_t>(k)]));
    if (embedding && spec_.tied) model_->head.own = own;
    fills_.push_back([rows = own.rows, tokens = trained.tokens, matrix = *frozen_at(*model_, w)] {
      for (std::size_t k = 0; k < tokens.size(); ++k)
        kernels::unpack(matrix, tokens[k], 1, 0, matrix.cols, rows.value().row(static_cast<std::int64_t>(k)));
    });
  }

  // Takes the adapter's start out of the base, which keeps the rest: in memory of its own, in the type it had. LoftQ
  // leaves NF4, whatever it was.
  void start_from_base(const LoraAdapter& lora, const AdaptedModule& m, const WeightName& w) {
    const std::string& init = training_.adapter->init;
    auto refuse = [&](const std::string& why) {
      problems_.add(fmt::format("{}: init_lora_weights '{}' on '{}': {}", source_name_, init, m.module.name, why));
    };
    auto stored = find(w);
    if (source_ && !stored) return;
    const bool quantised = stored && (stored->storage == Storage::nf4 || stored->storage == Storage::int8);
    if (m.r > std::min(m.module.rows, m.module.cols))
      return refuse(fmt::format("rank {} is above the weight's smaller side", m.r));
    if (quantised && init == "loftq")
      return refuse("the base is quantised already; without load_in_4bit and load_in_8bit LoftQ does it");
    if (init == "olora" && w.transposed) return refuse("weights stored as (in, out) are not supported");
    if (init == "loftq" && w.fused() && w.rows * w.cols % kernels::kNf4Block != 0)
      return refuse("its parts do not begin at a block of NF4");
    std::vector<float> values(static_cast<std::size_t>(m.module.rows * m.module.cols));
    tensor_values(w, stored, values.data());
    auto start = std::make_shared<LowRankStart>(take_low_rank_part(init, {values.data(), m.module.rows, m.module.cols},
                                                                   m.r, m.scale, training_.adapter->loftq_iterations));
    const Storage storage = init == "loftq" ? Storage::nf4 : stored ? stored->storage : Storage::f32;
    Weight& rest = rests_[w.tensor];
    rest = keep_values(storage, std::move(values), m.module.rows, m.module.cols, quantised, model_->owned);
    const bool half =
        stored && (stored->bf16_values || stored->storage == Storage::bf16 || stored->storage == Storage::f16);
    rest.bf16_values = storage == Storage::nf4 && half;
    fills_.push_back([lora, start] {
      std::ranges::copy(start->a, lora.a.value().data);
      std::ranges::copy(start->b, lora.b.value().data);
    });
  }

  ModelSpec spec_;
  const TensorSource& source_;
  const Training& training_;
  const std::string& source_name_;
  std::unique_ptr<CausalLm> model_;
  AdapterPlan plan_;
  Problems problems_;
  std::map<std::string, ParameterRef> whole_;
  std::vector<std::function<void()>> fills_;
  std::map<std::string, TensorStart> starts_;  // by parameter
  std::map<std::string, Weight> rests_;        // what an adapter's start left of a tensor
  std::uint32_t next_stream_ = 0;
};

}  // namespace

std::unique_ptr<CausalLm> build_model(const ModelSpec& spec, const TensorSource& source, const Training& training,
                                      const std::string& source_name) {
  return Builder(spec, source, training, source_name).build();
}

namespace {

// Stacked matrices are one of all their rows.
std::vector<std::int64_t> folded(std::vector<std::int64_t> shape, std::size_t dimensions) {
  while (shape.size() > dimensions && shape.size() > 1) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
  return shape;
}

}  // namespace

void load_parameters(ParameterStore& parameters, const TensorSource& source, const std::string& source_name) {
  Problems problems;
  for (Unit& unit : parameters.units())
    for (const Parameter& p : unit.parameters) {
      auto t = source(p.name);
      if (!t) problems.add(fmt::format("{}: tensor '{}' is missing", source_name, p.name));
      else if (folded(t->shape, p.shape.size()) != p.shape)
        problems.add(fmt::format("{}: tensor '{}' has shape {}, this model needs {}", source_name, p.name,
                                 shape_of(t->shape), shape_of(p.shape)));
      else read_values(*t, p.shape[0], elements(p.shape) / p.shape[0], unit.value + p.offset);
    }
  problems.raise();
}

}  // namespace dml
