#include "nn/parameter.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/elementwise.h"
#include "nn/state_layout.h"

namespace dml {
namespace {

constexpr std::int64_t kAlign =
    StateLayout::kBlock;  // floats: a slice that starts at a block starts at one of every parameter

std::int64_t aligned(std::int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

void zero_stale(const Unit& u, Parameter& p) {
  if (p.stale) kernels::fill({u.grad + p.offset, static_cast<std::size_t>(p.size())}, 0);
  p.stale = false;
}

}  // namespace

Mat ParameterRef::grad() const {
  if (!unit->grad) return {};
  zero_stale(*unit, unit->parameters[index]);
  return {unit->grad + offset, rows, cols};
}

ParameterRef::Gradient ParameterRef::whole_grad() const {
  if (!unit->grad) return {};
  Parameter& p = unit->parameters[index];
  if (!p.stale || rows * cols != p.size()) return {grad()};
  p.stale = false;
  return {{unit->grad + offset, rows, cols}, Write::set};
}

void ParameterStore::create_units(std::vector<std::string> names) {
  DML_CHECK(units_.empty());
  units_.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) units_[i].name = std::move(names[i]);
}

ParameterRef ParameterStore::add(std::size_t unit, std::string name, std::vector<std::int64_t> shape, bool decay) {
  DML_CHECK(unit < units_.size() && values_.capacity() == 0 && !shape.empty() && shape.size() <= 2);
  Unit& u = units_[unit];
  Parameter p{std::move(name), u.size, std::move(shape), decay};
  std::int64_t rows = p.shape.size() == 2 ? p.shape[0] : 1, cols = p.shape.back();
  u.size = aligned(u.size + p.size());
  ParameterRef ref{&u, u.parameters.size(), p.offset, rows, cols};
  u.parameters.push_back(std::move(p));
  return ref;
}

void ParameterStore::allocate() {
  values_ = Arena(static_cast<std::size_t>(floats()) * sizeof(float) + units_.size() * Arena::kAlignment);
  for (Unit& u : units_) u.value = values_.take<float>(u.size).data();
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
  Unit& u = units_[unit];
  for (Parameter& p : u.parameters) {
    zero_stale(u, p);
    std::int64_t end = p.offset + p.size();
    std::fill(u.grad + end, u.grad + aligned(end), 0.f);
  }
}

void ParameterStore::mask_gradient(std::size_t unit) {
  const Unit& u = units_[unit];
  if (!u.grad) return;
  for (const Parameter& p : u.parameters) {
    float* grad = u.grad + p.offset;
    auto clear = [&](std::int64_t first, std::int64_t last) {
      if (first < last) kernels::fill({grad + first, static_cast<std::size_t>(last - first)}, 0);
    };
    clear(0, p.trained_first);
    clear(p.trained_end(), p.size());
  }
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
