#include "nn/parameter.h"

#include "core/error.h"
#include "kernels/elementwise.h"
#include "nn/state_layout.h"

namespace dml {
namespace {

constexpr std::int64_t kAlign =
    StateLayout::kBlock;  // floats: a slice that starts at a block starts at one of every parameter

std::int64_t aligned(std::int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

}  // namespace

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
  ParameterRef ref{&u, p.offset, rows, cols};
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
