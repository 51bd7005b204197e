// AdamW, also for the parameters that matrix optimizers (Muon, GaLore, APOLLO) do not apply to.
#pragma once

#include "optim/arguments.h"

namespace dml {

struct AdamSettings {
  double weight_decay, beta1, beta2, epsilon;
  explicit AdamSettings(const Arguments& a)
      : weight_decay(a.number("weight_decay")),
        beta1(a.number("beta1")),
        beta2(a.number("beta2")),
        epsilon(a.number("eps")) {}
};

/// Updates a slice; m and v have its size.
void adamw_update(const AdamSettings& settings, const OptimizerSlice& slice, const OptimizerStep& step, float* m,
                  float* v);

}  // namespace dml
