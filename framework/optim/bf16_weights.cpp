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

float widened(float x) { return x; }
float widened(bf16 x) { return to_float(x); }
// Assigns a bfloat16 value to either storage type.
void assign(float& to, bf16 x) { to = to_float(x); }
void assign(bf16& to, bf16 x) { to = x; }

// This thread's memory for the updated values; separate from working_memory(), which the inner optimizer uses.
std::span<float> room_for(std::int64_t size) {
  static thread_local std::vector<float> memory;
  if (std::ssize(memory) < size) memory.resize(static_cast<std::size_t>(size));
  return std::span(memory).first(static_cast<std::size_t>(size));
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
    state.tensors.push_back({.name = "compensation", .dtype = DType::bf16});
    return state;
  });
}

std::size_t Bf16Optimizer::working_bytes(const Parameter& parameter) const {
  const std::int64_t size = parameter.trained_size(),
                     slice = layout_.whole(parameter) ? size : std::min(size, kMaxWidenedElements);
  return inner_->working_bytes(parameter) + static_cast<std::size_t>(slice) * sizeof(float);
}

void Bf16Optimizer::step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const {
  for (const OptimizerSlice& s : slices)
    if (s.value.empty()) update(s.value16, s, step);
    else update(s.value, s, step);
}

template <class T>
void Bf16Optimizer::update(std::span<T> values, const OptimizerSlice& s, const OptimizerStep& step) const {
  const std::span<float> updated = room_for(s.size());
  each_element(s.size(), [w = updated.data(), v = values.data()](std::int64_t i) { w[i] = widened(v[i]); });
  OptimizerSlice inside = s;
  inside.value = updated;
  inside.value16 = {};
  inside.state = s.state.first(static_cast<std::size_t>(layout_.floats(*s.parameter, s.size())));
  inner_->step({&inside, 1}, step);
  if (kahan()) round_with_kahan<T>(updated, values, s);
  else round_at_random<T>(updated, values, s, step.number);
}

template <class T>
void Bf16Optimizer::round_with_kahan(std::span<const float> updated, std::span<T> values,
                                     const OptimizerSlice& s) const {
  auto* compensation = reinterpret_cast<bf16*>(s.state.data() + layout_.floats(*s.parameter, s.size()));
  each_element(s.size(), [w = updated.data(), v = values.data(), c = compensation](std::int64_t i) {
    const float old = widened(v[i]), carried = to_float(c[i]) + (w[i] - old);
    const bf16 rounded = to_bf16(old + carried);
    assign(v[i], rounded);
    c[i] = to_bf16(carried + (old - to_float(rounded)));
  });
}

template <class T>
void Bf16Optimizer::round_at_random(std::span<const float> updated, std::span<T> values, const OptimizerSlice& s,
                                    std::int64_t step) const {
  const std::string& name = s.parameter->name;
  const Random random(seed_, Purpose::rounding, hash64(name.data(), name.size()), static_cast<std::uint32_t>(step));
  parallel_ranges(s.size(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::uint64_t kEach = 8;  // elements that share a block of random words
    std::uint64_t number = ~std::uint64_t{0};
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t i = begin; i < end; ++i) {
      const auto element = static_cast<std::uint64_t>(s.first + i), at = static_cast<std::uint64_t>(i);
      if (element / kEach != number) words = random.block(number = element / kEach);
      const std::uint32_t word = words[element % kEach / 2];
      assign(values[at], to_bf16(rounded_stochastically(updated[at], element % 2 ? word >> 16 : word)));
    }
  });
}

}  // namespace dml
