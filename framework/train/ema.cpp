#include "train/ema.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "optim/elementwise.h"

namespace dml {

AveragedOptimizer::AveragedOptimizer(std::unique_ptr<Optimizer> inner, double decay)
    : inner_(std::move(inner)), layout_(inner_->state()), decay_(decay) {
  if (inner_->averages()) throw UserError("ema_decay: this optimizer averages its steps itself; remove ema_decay");
}

StateLayout AveragedOptimizer::state() const {
  return StateLayout([layout = layout_](const Parameter& p) {
    ParameterState state{layout.tensors(p, p.size()), layout.whole(p)};
    state.tensors.push_back({.name = "average"});
    state.tensors.push_back({.name = "average_steps", .each = 0, .shape = {1}});
    return state;
  });
}

AveragedOptimizer::Own AveragedOptimizer::own(const OptimizerSlice& s) const {
  float* average = s.state.data() + layout_.floats(*s.parameter, s.size());
  return {average, average + s.size()};
}

void AveragedOptimizer::step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const {
  std::vector<OptimizerSlice> theirs(slices.begin(), slices.end());
  for (OptimizerSlice& s : theirs) {
    const Own mine = own(s);
    if (*mine.steps == 0) std::ranges::copy(s.value, mine.average);
    s.state = s.state.first(static_cast<std::size_t>(layout_.floats(*s.parameter, s.size())));
  }
  inner_->step(theirs, step);
  for (const OptimizerSlice& s : slices) {
    const Own mine = own(s);
    const double t = *mine.steps, decay = std::min(decay_, (1 + t) / (10 + t));
    const float keep = as_float(decay), take = as_float(1 - decay);
    each_element(s.size(), [=, average = mine.average, w = s.value.data()](std::int64_t i) {
      average[i] = keep * average[i] + take * w[i];
    });
    *mine.steps += 1;
  }
}

void AveragedOptimizer::show_average(std::span<const OptimizerSlice> slices) const {
  for (const OptimizerSlice& s : slices) {
    const Own mine = own(s);
    if (*mine.steps == 0) continue;  // there is none yet
    each_element(s.size(),
                 [average = mine.average, w = s.value.data()](std::int64_t i) { std::swap(average[i], w[i]); });
  }
}

}  // namespace dml
