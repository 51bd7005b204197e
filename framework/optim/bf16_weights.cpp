#include "optim/bf16_weights.h"

#include <bit>
#include <vector>

#include "core/bf16.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "optim/elementwise.h"

namespace dml {
namespace {

float rounded(float x) { return to_float(to_bf16(x)); }

// The values before a step. Beside working_memory(), which the optimizer inside uses.
std::span<float> values_before(std::span<const float> values) {
  static thread_local std::vector<float> memory;
  if (memory.size() < values.size()) memory.resize(values.size());
  std::ranges::copy(values, memory.begin());
  return std::span(memory).first(values.size());
}

}  // namespace

float rounded_stochastically(float x, std::uint32_t sixteen_bits) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + (sixteen_bits & 0xffffu)) & 0xffff0000u);
}

Bf16Optimizer::Bf16Optimizer(std::unique_ptr<Optimizer> inner, WeightRounding rounding, std::uint64_t seed)
    : inner_(std::move(inner)), layout_(inner_->state()), rounding_(rounding), seed_(seed) {
  if (inner_->averages())
    throw UserError(
        "bf16_weights: this optimizer's result is an average of its steps, which rounding would spoil; remove "
        "bf16_weights");
}

StateLayout Bf16Optimizer::state() const {
  if (!kahan()) return layout_;
  return StateLayout([layout = layout_](const Parameter& p) {
    ParameterState state{layout.tensors(p, p.size()), layout.whole(p)};
    state.tensors.push_back({.name = "compensation"});
    return state;
  });
}

std::size_t Bf16Optimizer::working_bytes(const Parameter& parameter) const {
  const auto before = static_cast<std::size_t>(kahan() ? parameter.trained_size() : 0);
  return inner_->working_bytes(parameter) + before * sizeof(float);
}

void Bf16Optimizer::step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const {
  if (kahan()) {
    for (const OptimizerSlice& s : slices) step_with_kahan(s, step);
    return;
  }
  inner_->step(slices, step);
  for (const OptimizerSlice& s : slices) round_at_random(s, step.number);
}

void Bf16Optimizer::step_with_kahan(const OptimizerSlice& s, const OptimizerStep& step) const {
  const std::span<const float> before = values_before(s.value);
  OptimizerSlice inside = s;
  const std::int64_t floats = layout_.floats(*s.parameter, s.size());
  inside.state = s.state.first(static_cast<std::size_t>(floats));
  inner_->step({&inside, 1}, step);
  each_element(s.size(), [=, w = s.value.data(), old = before.data(), c = s.state.data() + floats](std::int64_t i) {
    const float carried = c[i] + (w[i] - old[i]);
    w[i] = rounded(old[i] + carried);
    c[i] = rounded(carried + (old[i] - w[i]));
  });
}

void Bf16Optimizer::round_at_random(const OptimizerSlice& s, std::int64_t step) const {
  const std::string& name = s.parameter->name;
  const Random random(seed_, Purpose::rounding, hash64(name.data(), name.size()), static_cast<std::uint32_t>(step));
  parallel_ranges(s.size(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::uint64_t kEach = 8;  // elements that share a block of random words
    std::uint64_t number = ~std::uint64_t{0};
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t i = begin; i < end; ++i) {
      const auto element = static_cast<std::uint64_t>(s.first + i);
      if (element / kEach != number) words = random.block(number = element / kEach);
      const std::uint32_t word = words[element % kEach / 2];
      float& w = s.value[static_cast<std::size_t>(i)];
      w = rounded_stochastically(w, element % 2 ? word >> 16 : word);
    }
  });
}

}  // namespace dml
