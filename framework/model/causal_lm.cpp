#include "model/causal_lm.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "kernels/elementwise.h"
#include "model/trimmed_batch.h"

namespace dml {
void CausalLm::set_length(std::int64_t length) {
  if (spec.positions == Positions::learned && length > spec.max_positions)
    throw UserError("a text of {} tokens is longer than the {} positions of this {} model", length, spec.max_positions,
                    spec.model_type);
  rope_ = RopeTables(spec, length);
}

std::int64_t CausalLm::lowest_trained() const {
  if (embedding.trains()) return -1;
  std::int64_t l = 0;
  while (l < spec.layers && !layers[l].trains()) ++l;
  return l;
}

// Weights may depend on the losses. The gradient of a row of x is linear in the row's weight, so with a frozen head it
// is scaled afterwards; a trained head is computed twice, first for the losses only.
double CausalLm::head_loss(ConstMat x, std::span<const Token> labels, Mat d, Pass& pass, const PassOptions& how) {
  if (!how.weights) return head.loss(x, {labels, how.row_losses, how.row_squares, {}, how.extra}, d, pass);
  DML_CHECK(!how.extra, "label smoothing and z-loss are of losses that are not weighted");
  Arena::Scope scope(arena_);
  auto losses = arena_.take<float>(x.rows), factors = arena_.take<float>(x.rows);
  const kernels::RowLosses rows{labels, losses, how.weights->squares(static_cast<std::size_t>(x.rows))};
  auto weigh = [&] {
    if (!dry_run()) how.weights->weigh(losses, factors);
  };
  if (head.trains()) {
    const double sum = head.loss(x, rows, {}, pass);
    weigh();
    head.loss(x, {.labels = labels, .weights = factors}, d, pass);
    return sum;
  }
  const double sum = head.loss(x, rows, d, pass);
  weigh();
  kernels::scale_rows(d, factors);
  return sum;
}

// The rows of a micro-batch that each layer computes, and the activations that it saves.
struct CausalLm::PassPlan {
  const CausalLm& model;
  const TrimmedBatch& trimmed_batch;
  Labeled labeled;
  bool backward, pick;  // pick: only rows with a label go through the rest of the last layer
  int lowest, last;     // the lowest layer that a gradient reaches, and the last layer
  std::int64_t tokens;

  std::span<const std::int32_t> rows_of(int l) const {
    return pick && l == last ? std::span<const std::int32_t>(labeled.rows) : std::span<const std::int32_t>{};
  }
  std::int64_t height_of(int l) const { return pick && l == last ? std::ssize(labeled.rows) : tokens; }
  bool reached(int l) const { return backward && l >= lowest; }
  // Activations that backward does not read, or recomputes, are in scratch memory.
  bool saved(int l) const { return reached(l) && model.recompute_of(l) != RecomputePolicy::layers; }
};

// Shared prefixes are computed once if they have the same values in every document.
Trim CausalLm::trim_of(bool backward) const {
  return rope_.differ_by_document() || (backward && noise > 0) ? Trim::labeled : Trim::shared_prefixes;
}

double CausalLm::run_pass(const PackedBatch& given, UnitHooks& hooks, const PassOptions& how) {
  Arena::Scope step(arena_);
  const bool backward = how.backward;
  const bool routed = backward && (spec.moe.balance != 0 || spec.moe.z != 0);
  // A batch without labels runs the pass without tokens, since other ranks may wait for its communication.
  const TrimmedBatch trimmed_batch = trimmed(given, arena_, routed ? Trim::every_token : trim_of(backward));
  const PackedBatch& batch = trimmed_batch.batch;
  const auto documents = rope_documents(given, trimmed_batch, arena_);
  Pass pass{batch,
            arena_,
            rope_.full(batch.positions, documents, arena_),
            rope_.local(batch.positions, documents, arena_),
            backward,
            how.seed.seed,
            how.seed.micro_batch};
  pass.low_memory = saves.norm_inputs == DType::bf16;
  pass.base_only = how.adapters == Adapters::off;
  pass.shared = trimmed_batch.shared;
  pass.hooks = &hooks;
  if (backward) pass.packed = packed.get();
  RouterSums routers({spec.moe.balance, spec.moe.z}, spec.moe.experts, arena_);
  if (backward) pass.routers = &routers;
  const std::int64_t tokens = batch.size(), count = given.trained(), width = spec.hidden;
  const int last = static_cast<int>(spec.layers) - 1, head_unit = last + 2;
  // A bounding dry run includes the memory for picking rows.
  const bool some = count < tokens || dry_run_bounds();
  const PassPlan plan{*this,
                      trimmed_batch,
                      labeled_rows(batch, count, arena_),
                      backward,
                      !layers[static_cast<std::size_t>(last)].parallel && some && !routed,
                      static_cast<int>(lowest_trained()),
                      last,
                      tokens};

  const Mat embedded = backward ? embedding.plan(tokens, width, arena_) : Mat{};
  plan_saved(plan);
  const Mat dx = backward ? arena_.matrix(tokens, width) : Mat{}, top = arena_.matrix(plan.height_of(last), width);
  forward_layers(plan, given, embedded, dx, top, pass);
  hooks.before_forward(head_unit);
  if (backward) {
    hooks.before_gradient(head_unit);
    if (spec.tied) hooks.before_gradient(0);
  }
  Mat fed = top;
  if (!plan.pick && some) {
    fed = arena_.matrix(count, width);
    kernels::gather_rows(top, plan.labeled.rows, fed);
  }
  const Mat d = backward ? fed : Mat{};  // the gradient overwrites its value
  double sum = head_loss(fed, plan.labeled.labels, d, pass, how);
  const double weighted = routers.close(how.weights ? how.weights->denominator() : static_cast<double>(count));
  if (how.weights) how.weights->add_router_losses(weighted);
  else (how.extra ? how.extra->sum : sum) += weighted;
  if (!backward) return sum;
  finish_unit(head_unit, hooks);
  if (!plan.pick) kernels::scatter_rows(d, plan.labeled.rows, dx, Write::set);
  backward_layers(plan, plan.pick ? d : dx, dx, embedded, pass);
  return sum;
}

void CausalLm::plan_saved(const PassPlan& plan) {
  inputs_.resize(layers.size());
  saved_.resize(layers.size());
  for (int l = std::max(plan.lowest, 0); plan.backward && l <= plan.last; ++l) {
    SavePolicy policy = saves;
    policy.mlp = recompute_of(l) != RecomputePolicy::mlp;
    inputs_[l] = SavedActivation::plan(plan.tokens, spec.hidden, policy.norm_inputs, arena_);
    if (plan.saved(l)) saved_[l] = layers[l].plan(plan.tokens, plan.height_of(l), policy, arena_);
  }
}

// Two buffers alternate as input and output of a layer, the first in the memory of `dx`, unless the input is saved
// unrounded.
void CausalLm::forward_layers(const PassPlan& plan, const PackedBatch& given, Mat embedded, Mat dx, Mat top,
                              Pass& pass) {
  Arena::Scope forward(arena_);
  Mat passing[2] = {dx, {}};
  auto input_of = [&](int l) {
    if (plan.reached(l) && inputs_[l].whole.data) return inputs_[l].whole;
    if (!passing[l % 2].data) passing[l % 2] = arena_.matrix(plan.tokens, spec.hidden);
    return passing[l % 2];
  };
  Mat x = input_of(0);
  pass.hooks->before_forward(0);
  embedding.forward(x, embedded, pass);
  if (plan.backward && noise > 0)
    add_noise(noise * (spec.scales_noise ? spec.embedding_scale : 1),
              Random(pass.seed, Purpose::noise, pass.micro_batch), given, plan.trimmed_batch, x);
  pass.hooks->after_forward(0);
  for (int l = 0; l <= plan.last; ++l) {
    Mat y = l == plan.last ? top : input_of(l + 1);
    if (plan.reached(l)) inputs_[l].close(x);
    Arena::Scope scratch(arena_);
    pass.hooks->before_forward(l + 1);
    if (!plan.saved(l)) saved_[l] = layers[l].plan(plan.tokens, plan.height_of(l), {.mlp = false}, arena_);
    layers[l].forward(x, plan.rows_of(l), y, saved_[l], pass);
    pass.hooks->after_forward(l + 1);
    x = y;
  }
}

// d: the gradient of the last layer's output; dx receives the gradient of each layer's input in turn.
void CausalLm::backward_layers(const PassPlan& plan, Mat d, Mat dx, Mat embedded, Pass& pass) {
  UnitHooks& hooks = *pass.hooks;
  for (int l = plan.last; l >= 0; --l) {
    Arena::Scope scratch(arena_);
    hooks.before_backward(l + 1);
    if (l >= plan.lowest) {
      if (!plan.saved(l)) {
        saved_[l] = layers[l].plan(plan.tokens, plan.height_of(l), {}, arena_);
        Arena::Scope forward(arena_);
        Mat again = arena_.matrix(plan.height_of(l), spec.hidden);
        layers[l].forward(inputs_[l].read(arena_), plan.rows_of(l), again, saved_[l], pass);
      }
      layers[l].backward(d, inputs_[l], plan.rows_of(l), saved_[l], l > plan.lowest ? dx : Mat{}, pass);
      d = dx;
    }
    finish_unit(l + 1, hooks);
  }
  if (embedding.lora || embedding.norm.trains()) hooks.before_backward(0);
  hooks.before_gradient(0);
  embedding.backward(dx, embedded, pass);
  finish_unit(0, hooks);
}

void CausalLm::finish_unit(int unit, UnitHooks& hooks) {
  mask_gradient(parameters.units()[static_cast<std::size_t>(unit)], 0);
  hooks.after_backward(unit);
}

std::vector<Linear*> CausalLm::layer_linears() {
  std::vector<Linear*> all;
  for (DecoderLayer& layer : layers) std::ranges::copy(layer.linears(), std::back_inserter(all));
  return all;
}

double CausalLm::train(const PackedBatch& batch, PassSeed seed, UnitHooks& hooks, RowWeights* weights,
                       kernels::ExtraLoss* extra) {
  return run_pass(batch, hooks, {.backward = true, .seed = seed, .weights = weights, .extra = extra});
}

double CausalLm::evaluate(const PackedBatch& batch, UnitHooks& hooks, std::span<float> row_losses, Adapters adapters,
                          std::span<float> row_squares) {
  return run_pass(batch, hooks, {.row_losses = row_losses, .row_squares = row_squares, .adapters = adapters});
}

PlaceholderBinding::PlaceholderBinding(ParameterStore& parameters, bool in_parts)
    : parameters_(parameters), really_(parameters.units()) {
  auto* somewhere = reinterpret_cast<float*>(Arena::kAlignment);
  const BoundValues values = parameters.values_at(reinterpret_cast<std::byte*>(somewhere));
  for (Unit& u : parameters.units()) {
    u.value = in_parts && parameters.values_in_parts ? BoundValues() : values;
    u.grad = in_parts && parameters.gradients_in_parts ? nullptr : somewhere;
    for (UnitPart& part : u.parts) part.value = values, part.grad = somewhere;
  }
}

PlaceholderBinding::~PlaceholderBinding() {
  for (std::size_t i = 0; i < really_.size(); ++i) {
    Unit& u = parameters_.units()[i];
    u.value = really_[i].value, u.grad = really_[i].grad;
    u.parts = std::move(really_[i].parts);
  }
}

std::size_t CausalLm::measure(Shape shape, bool backward) {
  std::vector<Token> tokens(static_cast<std::size_t>(shape.tokens)), labels(tokens.size(), kIgnore);
  std::fill_n(labels.begin(), std::min(shape.trained, shape.tokens), 0);
  std::vector<std::int32_t> positions(tokens.size()), starts,
      shared(shape.shared ? static_cast<std::size_t>(shape.documents) : 0);
  for (std::int64_t i = 0; i <= shape.documents; ++i)
    starts.push_back(static_cast<std::int32_t>(i * shape.tokens / shape.documents));
  UnitHooks no_hooks;
  const PlaceholderBinding bound(parameters, true);
  std::vector<float> room(shape.squared ? static_cast<std::size_t>(std::min(shape.trained, shape.tokens)) : 0);
  struct Any : RowWeights {
    explicit Any(std::span<float> squares) : room(squares) {}
    void weigh(std::span<const float>, std::span<float>) override {}
    double denominator() const override { return 0; }
    void add_router_losses(double) override {}
    std::span<float> squares(std::size_t) override { return room; }
    std::span<float> room;
  } any(room);
  kernels::ExtraLoss extra{.label_smoothing = 1};
  return measure_calls([&] {
    run_pass({.tokens = tokens, .labels = labels, .positions = positions, .starts = starts, .shared = shared}, no_hooks,
             {.backward = backward,
              .weights = shape.weighted ? &any : nullptr,
              .extra = backward && shape.smoothed ? &extra : nullptr,
              .row_squares = backward ? std::span<float>() : std::span<float>(room)});
  });
}

std::size_t CausalLm::measure(const PackedBatch& batch, bool backward) {
  UnitHooks no_hooks;
  const PlaceholderBinding bound(parameters, true);
  return measure_calls([&] { run_pass(batch, no_hooks, {.backward = backward}); }, DryRun::Sizes::exact);
}

}  // namespace dml
