#include "nn/parameter.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "core/rounding.h"
#include "kernels/elementwise.h"
#include "nn/state_layout.h"

namespace dml {
namespace {

constexpr std::int64_t kAlign =
    StateLayout::kBlock;  // in floats; so slices that start at a block of the unit start at a block of the parameter
constexpr std::int64_t kPartAlign = 1024;  // in floats; whole blocks of dist/shards.h

// Zeroes a gradient once; later calls write nothing, since tiles on several threads may request a gradient in use.
void zero_stale(const Unit& u, Parameter& p) {
  if (!p.stale) return;
  kernels::fill({u.grad + p.offset, static_cast<std::size_t>(p.size())}, 0);
  p.stale = false;
}

// The size of a vector's float32 copy, rounded up to cache lines.
std::int64_t widened_size(const Parameter& p) { return p.widened_at >= 0 ? round_up(p.size(), 16) : 0; }

}  // namespace

BoundValues ParameterRef::bound() const {
  if (unit->value) return unit->value.from(offset);
  const UnitPart& in = unit->parts[part];
  return in.value ? in.value.from(offset - in.first) : BoundValues();
}

Mat ParameterRef::value() const {
  const Parameter& p = unit->parameters[index];
  if (unit->widened && p.widened_at >= 0) return {unit->widened + p.widened_at + (offset - p.offset), rows, cols};
  float* at = bound().floats();
  return at ? Mat{at, rows, cols} : Mat{};
}

kernels::Weight ParameterRef::weight() const {
  const bf16* at = bound().bf16s();
  return at ? kernels::Weight{DType::bf16, rows, cols, at} : kernels::weight_of(value());
}

Mat ParameterRef::grad() const {
  if (unit->grad) {
    zero_stale(*unit, unit->parameters[index]);
    return {unit->grad + offset, rows, cols};
  }
  const UnitPart& in = unit->parts[part];
  return in.grad ? Mat{in.grad + (offset - in.first), rows, cols} : Mat{};
}

ParameterRef::Gradient ParameterRef::whole_grad() const {
  Parameter& p = unit->parameters[index];
  if (!unit->grad || !p.stale || rows * cols != p.size()) return {grad()};
  p.stale = false;
  return {{unit->grad + offset, rows, cols}, Write::set};
}

std::size_t ParameterRef::part_count() const {
  std::size_t n = 1;
  while (part > 0 && part + n < unit->parts.size() && unit->parts[part + n].first < offset + rows * cols) ++n;
  return n;
}

ParameterRef ParameterRef::in_part(std::size_t k) const {
  if (part == 0) return *this;
  const UnitPart& p = unit->parts[part + k];
  ParameterRef some = *this;
  some.part = part + k;
  some.offset = std::max(p.first, offset);
  some.rows = (std::min(p.last, offset + rows * cols) - some.offset) / cols;
  return some;
}

void ParameterStore::create_units(std::vector<std::string> names) {
  DML_CHECK(units_.empty());
  units_.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) units_[i].name = std::move(names[i]), units_[i].number = i;
}

ParameterRef ParameterStore::add(std::size_t unit, std::string name, std::vector<std::int64_t> shape, bool matrix,
                                 ParameterRole role, std::int64_t part_rows) {
  DML_CHECK(unit < units_.size() && values_.capacity() == 0 && !shape.empty() && shape.size() <= 2);
  Unit& u = units_[unit];
  DML_CHECK(part_rows > 0 || u.parts.size() == 1, "{} is small and comes too late", name);
  if (part_rows > 0) u.parts.back().last = u.size = round_up(u.size, kPartAlign);
  Parameter p{std::move(name), u.size, std::move(shape), role, matrix};
  p.widened_at = matrix ? -1 : 0;
  std::int64_t rows = p.shape.size() == 2 ? p.shape[0] : 1, cols = p.shape.back();
  u.size = round_up(u.size + p.size(), kAlign);
  ParameterRef ref{&u, u.parameters.size(), p.offset, rows, cols, part_rows > 0 ? u.parts.size() : 0};
  for (std::int64_t row = 0; part_rows > 0 && row < rows; row += part_rows) {
    u.parts.push_back({p.offset + row * cols, p.offset + std::min(rows, row + part_rows) * cols});
    DML_CHECK(u.parts.back().first % kPartAlign == 0);
  }
  u.parts.back().last = u.size;
  u.parameters.push_back(std::move(p));
  return ref;
}

void ParameterStore::allocate(bool values) {
  if (values) {
    values_ = Arena(static_cast<std::size_t>(floats() * value_width()) + units_.size() * Arena::kAlignment);
    for (Unit& u : units_) u.value = values_at(values_.take<std::byte>(u.size * value_width()).data());
  }
  if (!bf16_values) return;
  widened_ = Arena(static_cast<std::size_t>(widened_bytes()));
  for (Unit& u : units_) {
    std::int64_t size = 0;
    for (Parameter& p : u.parameters)
      if (const std::int64_t own = widened_size(p); own > 0) p.widened_at = size, size += own;
    u.widened = widened_.take<float>(size).data();
  }
}

std::int64_t ParameterStore::widened_bytes() const {
  std::int64_t floats = 0;
  for (const Unit& u : units_)
    for (const Parameter& p : u.parameters) floats += widened_size(p);
  return bf16_values ? floats * static_cast<std::int64_t>(sizeof(float)) : 0;
}

void ParameterStore::widen(std::size_t unit) {
  const Unit& u = units_[unit];
  const bf16* values = (u.value ? u.value : u.parts[0].value).bf16s();
  if (dry_run() || !u.widened || !values) return;
  for (const Parameter& p : u.parameters)
    for (std::int64_t i = 0; p.widened_at >= 0 && i < p.size(); ++i)
      u.widened[p.widened_at + i] = to_float(values[p.offset + i]);
}

void ParameterStore::widen() {
  for (const Unit& u : units_) widen(u.number);
}

ParameterStore ParameterStore::outline() const {
  ParameterStore other;
  other.units_ = units_;
  for (Unit& u : other.units_) {
    u.value = u.grad = u.widened = nullptr;
    for (UnitPart& part : u.parts) part.value = part.grad = nullptr;
  }
  other.bf16_values = bf16_values;
  other.embedding_and_head_share_buffer = embedding_and_head_share_buffer;
  return other;
}

void ParameterStore::release() {
  for (Unit& u : units_) u.value = nullptr;
  values_ = Arena();
}

void ParameterStore::begin_gradient() {
  for (Unit& u : units_)
    for (Parameter& p : u.parameters) p.stale = true;
}

void ParameterStore::end_gradient(std::size_t unit) {
  if (dry_run()) return;
  Unit& u = units_[unit];
  for (std::size_t i = 0; i < u.parameters.size(); ++i) {
    Parameter& p = u.parameters[i];
    zero_stale(u, p);
    std::fill(u.grad + p.offset + p.size(),
              u.grad + (i + 1 < u.parameters.size() ? u.parameters[i + 1].offset : u.size), 0.f);
  }
}

void mask_gradient(const Unit& unit, std::size_t part) {
  const UnitPart& in = unit.parts[part];
  float* grad = unit.grad ? unit.grad + in.first : in.grad;
  if (!grad) return;
  for (const Parameter& p : unit.parameters) {
    auto clear = [&](std::int64_t first, std::int64_t last) {
      first = std::max(p.offset + first, in.first), last = std::min(p.offset + last, in.last);
      if (first < last) kernels::fill({grad + (first - in.first), static_cast<std::size_t>(last - first)}, 0);
    };
    clear(0, p.trained_first);
    clear(p.trained_end(), p.size());
  }
}

void set_values(const Unit& unit, const Parameter& p, std::int64_t first, std::span<const float> values) {
  const BoundValues to = unit.value.from(p.offset + first);
  if (float* floats = to.floats()) std::ranges::copy(values, floats);
  else std::ranges::transform(values, to.bf16s(), to_bf16);
}

void read_values(const Unit& unit, const Parameter& p, std::int64_t first, std::span<float> out) {
  const BoundValues from = unit.value.from(p.offset + first);
  if (const float* floats = from.floats()) std::copy_n(floats, out.size(), out.begin());
  else std::transform(from.bf16s(), from.bf16s() + out.size(), out.begin(), [](bf16 x) { return to_float(x); });
}

std::int64_t ParameterStore::trainable() const {
  std::int64_t n = 0;
  for (const Unit& u : units_)
    for (const Parameter& p : u.parameters) n += p.trained_end() - p.trained_first;
  return n;
}

std::int64_t ParameterStore::floats() const {
  std::int64_t n = 0;
  for (const Unit& u : units_) n += u.size;
  return n;
}

}  // namespace dml
