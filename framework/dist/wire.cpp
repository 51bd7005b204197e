#include "dist/wire.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "dist/float_work.h"
#include "kernels/range_ops.h"

namespace dml {
namespace {

constexpr std::int64_t kConverted = 1024;  // values converted at a time, through a buffer

std::byte* packed(float* data, std::int64_t n) {
  return reinterpret_cast<std::byte*>(data) + static_cast<std::size_t>(n) * sizeof(bf16);
}

bool rounds(Wire wire, int ranks) { return wire.type == DType::bf16 && ranks > 1; }

}  // namespace

std::span<std::byte> Wire::bytes(float* data, std::int64_t n) const {
  if (type == DType::f32) return {reinterpret_cast<std::byte*>(data), static_cast<std::size_t>(n) * sizeof(float)};
  return {packed(data, n), static_cast<std::size_t>(n) * sizeof(bf16)};
}

void Wire::pack(float* data, std::int64_t n, bf16* residual) const {
  if (type == DType::f32) return;
  count_work(FloatWork::pack, n);
  if (dry_run()) return;
  // From the end to the beginning: block k is written where only later blocks were read from.
  for (std::int64_t first = (n - 1) / kConverted * kConverted; n > 0 && first >= 0; first -= kConverted) {
    const std::int64_t count = std::min(kConverted, n - first);
    const auto size = static_cast<std::size_t>(count);
    float values[kConverted] = {}, others[kConverted] = {};
    bf16 rounded[kConverted];
    std::memcpy(values, data + first, static_cast<std::size_t>(count) * sizeof(float));
    if (residual) {
      kernels::widen_bf16(residual + first, std::span(others).first(size));
      for (std::int64_t i = 0; i < kConverted; ++i) values[i] += others[i];
    }
    kernels::round_to_bf16(std::span(values).first(size), rounded);
    if (residual) {
      kernels::widen_bf16(rounded, std::span(others).first(size));
      for (std::int64_t i = 0; i < kConverted; ++i) values[i] -= others[i];
      kernels::round_to_bf16(std::span(values).first(size), residual + first);
    }
    std::memcpy(packed(data, n) + static_cast<std::size_t>(first) * sizeof(bf16), rounded,
                static_cast<std::size_t>(count) * sizeof(bf16));
  }
}

void Wire::unpack(float* data, std::int64_t n) const {
  if (type == DType::f32) return;
  count_work(FloatWork::unpack, n);
  if (dry_run()) return;
  for (std::int64_t first = 0; first < n; first += kConverted) {
    const std::int64_t count = std::min(kConverted, n - first);
    bf16 rounded[kConverted];
    std::memcpy(rounded, packed(data, n) + static_cast<std::size_t>(first) * sizeof(bf16),
                static_cast<std::size_t>(count) * sizeof(bf16));
    kernels::widen_bf16(rounded, {data + first, static_cast<std::size_t>(count)});
  }
}

Residuals::Residuals(const ParameterStore& store, Wire wire, int ranks) {
  if (!rounds(wire, ranks)) return;
  memory_ = Arena(static_cast<std::size_t>(bytes(store, wire, ranks)) + store.units().size() * Arena::kAlignment);
  for (const Unit& unit : store.units()) units_.push_back(memory_.take<bf16>(unit.size));
}

std::int64_t Residuals::bytes(const ParameterStore& store, Wire wire, int ranks) {
  return rounds(wire, ranks) ? store.floats() * static_cast<std::int64_t>(sizeof(bf16)) : 0;
}

}  // namespace dml
