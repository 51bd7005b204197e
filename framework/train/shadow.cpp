#include "train/shadow.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "optim/elementwise.h"

namespace dml {

ShadowOptimizer::ShadowOptimizer(std::unique_ptr<Optimizer> inner, std::string name, const char* key)
    : inner_(std::move(inner)), layout_(inner_->state()), name_(std::move(name)) {
  if (inner_->averages()) throw UserError("{0}: this optimizer averages its steps itself; remove {0}", key);
}

StateLayout ShadowOptimizer::state() const {
  return StateLayout([layout = layout_, name = name_](const Parameter& p) {
    ParameterState state{layout.tensors(p, p.size()), layout.whole(p)};
    state.tensors.push_back({.name = name});
    state.tensors.push_back({.name = name + "_steps", .elements_per_entry = 0, .shape = {1}});
    return state;
  });
}

ShadowOptimizer::Own ShadowOptimizer::own(const OptimizerSlice& s) const {
  float* shadow = s.state.data() + layout_.floats(*s.parameter, s.size());
  return {shadow, shadow + s.size()};
}

void ShadowOptimizer::step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const {
  std::vector<OptimizerSlice> theirs(slices.begin(), slices.end());
  for (OptimizerSlice& s : theirs) {
    const Own mine = own(s);
    if (*mine.steps == 0) std::ranges::copy(s.value, mine.shadow);
    s.state = s.state.first(static_cast<std::size_t>(layout_.floats(*s.parameter, s.size())));
  }
  inner_->step(theirs, step);
  for (const OptimizerSlice& s : slices) {
    const Own mine = own(s);
    const double share = decay(static_cast<std::int64_t>(*mine.steps), step);
    const float keep = as_float(share), take = as_float(1 - share);
    if (take > 0)
      each_element(s.size(), [=, shadow = mine.shadow, w = s.value.data()](std::int64_t i) {
        shadow[i] = keep * shadow[i] + take * w[i];
      });
    *mine.steps += 1;
  }
}

void ShadowOptimizer::swap(std::span<const OptimizerSlice> slices) const {
  for (const OptimizerSlice& s : slices) {
    const Own mine = own(s);
    if (*mine.steps == 0) continue;  // no state before the first step
    each_element(s.size(), [shadow = mine.shadow, w = s.value.data()](std::int64_t i) { std::swap(shadow[i], w[i]); });
  }
}

}  // namespace dml
