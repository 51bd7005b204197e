#include "nn/state_layout.h"

#include "core/error.h"
#include "core/rounding.h"

namespace dml {
namespace {

std::int64_t blocks(std::int64_t size) { return ceil_div(size, StateLayout::kBlock); }

}  // namespace

std::int64_t StateTensor::entries(std::int64_t elements) const {
  if (elements_per_entry > 0) return ceil_div(elements, elements_per_entry);
  std::int64_t count = 1;
  for (std::int64_t d : shape) count *= d;
  return count;
}

StateLayout StateLayout::eight_bit(int planes) {
  StateLayout layout(planes);
  layout.eight_bit_ = true;
  return layout;
}

std::int64_t StateLayout::scales_at(int plane, std::int64_t size) { return plane * blocks(size) * 4; }

std::int64_t StateLayout::codes_at(int planes, int plane, std::int64_t size) {
  return scales_at(planes, size) + plane * round_up(size, 4);
}

std::vector<StateTensor> StateLayout::kinds(const Parameter& parameter) const {
  if (rule_) return rule_(parameter).tensors;
  std::vector<StateTensor> all;
  const bool bytes = in_bytes(parameter);
  for (int plane = 0; bytes && plane < planes_; ++plane)
    all.push_back({"scale" + std::to_string(plane), DType::f32, kBlock});
  for (int plane = 0; plane < planes_; ++plane)
    all.push_back({"state" + std::to_string(plane), bytes ? DType::u8 : DType::f32});
  return all;
}

std::vector<StateTensor> StateLayout::tensors(const Parameter& parameter, std::int64_t size) const {
  std::vector<StateTensor> all = kinds(parameter);
  std::int64_t at = 0;
  for (StateTensor& t : all) {
    DML_CHECK(t.dtype != DType::f64 || at % 8 == 0, "doubles come first: {}", t.name);
    t.offset = at;
    at += round_up(t.entries(size) * t.width(), 4);
  }
  return all;
}

std::int64_t StateLayout::floats(const Parameter& parameter, std::int64_t size) const {
  if (!rule_ && !in_bytes(parameter)) return planes_ * size;
  const std::vector<StateTensor> all = tensors(parameter, size);
  return all.empty() ? 0 : (all.back().offset + round_up(all.back().entries(size) * all.back().width(), 4)) / 4;
}

}  // namespace dml
